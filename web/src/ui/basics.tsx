// Small parts of which pages are made.

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Failure } from '../api/http.ts';
import type { Loaded } from '../state/load.ts';

/** An error with what the server says. */
export function ErrorBox({ error, retry }: { error: unknown; retry?: () => void }) {
  const text = error instanceof Error ? error.message : String(error);
  const name = error instanceof Failure && error.status > 0 ? `${error.error} (${error.status})` : undefined;
  return (
    <div class="error-box" role="alert">
      {name && <strong>{name}: </strong>}
      {text}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Shows a loaded value, or that it is on its way, or why it failed. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  if (of.error) return <ErrorBox error={of.error} retry={of.reload} />;
  if (of.value === undefined) return <p class="loading">Loading…</p>;
  return <>{children(of.value)}</>;
}

/** What a page shows instead of an empty list. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A labelled control of a form. */
export function Field({ label, hint, children }: { label: string; hint?: ComponentChildren; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <small>{hint}</small>}
    </div>
  );
}

interface Tab {
  readonly label: string;
  readonly href: string;
  readonly current: boolean;
}

/** Links that look like tabs. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.href} href={tab.href} aria-current={tab.current ? 'page' : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  );
}

interface SegmentsProps<T extends string> {
  label: string;
  options: readonly (readonly [value: T, label: string])[];
  value: T;
  onChange: (value: T) => void;
}

/** A choice among a few options, all shown. */
export function Segments<T extends string>({ label, options, value, onChange }: SegmentsProps<T>) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** A button that opens a list of actions. */
export function Menu({ label, title, children }: { label: ComponentChildren; title?: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === 'Escape' : !element.current!.contains(event.target as globalThis.Node)) setOpen(false);
    };
    addEventListener('pointerdown', close);
    addEventListener('keydown', close);
    return () => {
      removeEventListener('pointerdown', close);
      removeEventListener('keydown', close);
    };
  }, [open]);
  return (
    <div class="menu" ref={element}>
      <button type="button" aria-expanded={open} aria-haspopup="true" aria-label={title} onClick={() => setOpen(!open)}>
        {label}
      </button>
      {open && (
        <div class="menu-items" onClick={() => setOpen(false)}>
          {children}
        </div>
      )}
    </div>
  );
}

/** A bar for work of known or unknown length. */
export function Progress({ label, done, total }: { label: string; done?: number; total?: number }) {
  return (
    <div class="progress">
      <progress aria-label={label} value={done} max={total} />
      <span>
        {label}
        {done !== undefined && total !== undefined && total > 0 && ` ${Math.floor((100 * done) / total)} %`}
      </span>
    </div>
  );
}

/** A form that runs `onSubmit` instead of leaving the page. The button waits until it is finished. */
export function Form({ onSubmit, children, label }: { onSubmit: () => unknown; children: ComponentChildren; label?: string }) {
  const [busy, setBusy] = useState(false);
  return (
    <form
      aria-label={label}
      aria-busy={busy}
      onSubmit={async (event) => {
        event.preventDefault();
        if (busy) return;
        setBusy(true);
        try {
          await onSubmit();
        } finally {
          setBusy(false);
        }
      }}
    >
      {children}
    </form>
  );
}

const whole = new Intl.NumberFormat('en');

/** A number with thousands separated. */
export function count(value: number | undefined): string {
  return value === undefined ? '–' : whole.format(value);
}

/** A size in bytes, with a unit. */
export function bytes(value: number | undefined): string {
  if (value === undefined) return '–';
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A length of time. */
export function duration(millis: number | undefined): string {
  if (millis === undefined) return '–';
  if (millis < 1000) return `${millis < 10 ? Number(millis.toFixed(1)) : Math.round(millis)} ms`;
  if (millis < 60_000) return `${(millis / 1000).toFixed(1)} s`;
  if (millis < 3_600_000) return `${Math.floor(millis / 60_000)} min ${Math.round((millis % 60_000) / 1000)} s`;
  return `${Math.floor(millis / 3_600_000)} h ${Math.round((millis % 3_600_000) / 60_000)} min`;
}
