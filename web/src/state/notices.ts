// Short messages at the edge of the page.

import { signal } from '@preact/signals';

export interface Notice {
  readonly id: number;
  readonly kind: 'done' | 'failed';
  readonly text: string;
}

export const notices = signal<readonly Notice[]>([]);

let last = 0;

function show(kind: Notice['kind'], text: string, millis: number): void {
  const id = ++last;
  notices.value = [...notices.value.slice(-4), { id, kind, text }];
  setTimeout(() => dismiss(id), millis);
}

/** Removes a message. */
export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

/** Says that something is done. */
export function done(text: string): void {
  show('done', text, 4000);
}

/** Says why something failed. */
export function failed(error: unknown): void {
  if (error instanceof DOMException && error.name === 'AbortError') return;
  show('failed', error instanceof Error ? error.message : String(error), 12_000);
}
