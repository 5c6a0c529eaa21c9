// Values that come from the server.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { returns } from '../api/http.ts';

export interface Loaded<T> {
  /** The last value, also while a newer one is on its way. */
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly loading: boolean;
  /** Loads again. */
  readonly reload: () => void;
}

/** Loads a value when `keys` change, on `reload`, and when the server is back. Loads that are out of date are aborted. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<{ value?: T; error?: Error; loading: boolean; keys: readonly unknown[] }>({ loading: true, keys });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const back = returns.value;
  useEffect(() => {
    const aborter = new AbortController();
    setState((old) => ({ value: sameKeys(old.keys, keys) ? old.value : undefined, loading: true, keys }));
    latest.current(aborter.signal).then(
      (value) => !aborter.signal.aborted && setState({ value, loading: false, keys }),
      (error: Error) => !aborter.signal.aborted && setState((old) => ({ value: old.value, error, loading: false, keys })),
    );
    return () => aborter.abort();
  }, [...keys, turn, back]);
  const reload = useCallback(() => setTurn((turn) => turn + 1), []);
  return { value: state.value, error: state.error, loading: state.loading, reload };
}

function sameKeys(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((key, index) => key === b[index]);
}

/** Calls `action` every `millis` milliseconds while the page is shown. */
export function useInterval(action: () => void, millis: number): void {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') latest.current();
    }, millis);
    return () => clearInterval(timer);
  }, [millis]);
}

/** `value`, but not before it has stayed the same for `millis` milliseconds. */
export function useSettled<T>(value: T, millis: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), millis);
    return () => clearTimeout(timer);
  }, [value, millis]);
  return settled;
}
