// A long work with its progress, which the person can cancel.

import { useEffect, useRef, useState } from 'preact/hooks';
import { useUnsaved } from '../../state/unsaved.ts';

export type Report = (done: number, total?: number) => void;

export interface Run<T> {
  readonly state: 'idle' | 'running' | 'finished' | 'cancelled' | 'failed';
  readonly done: number;
  readonly total: number | undefined;
  readonly result: T | undefined;
  readonly error: unknown;
  readonly start: (work: (signal: AbortSignal, report: Report, result: (value: T) => void) => Promise<void>) => void;
  readonly cancel: () => void;
}

/** At most so often the page shows the progress anew. */
const SHOW_MS = 100;

/** One run at a time. The work tells its result as it goes, so that a cancelled one says what it has done. */
export function useRun<T>(what: string): Run<T> {
  const [run, setRun] = useState<Omit<Run<T>, 'start' | 'cancel'>>({ state: 'idle', done: 0, total: undefined, result: undefined, error: undefined });
  const aborter = useRef<AbortController>(undefined);
  useUnsaved(run.state === 'running', what);
  useEffect(() => () => aborter.current?.abort(), []);
  const start: Run<T>['start'] = (work) => {
    const own = new AbortController();
    aborter.current = own;
    let shown = 0;
    let now: Omit<Run<T>, 'start' | 'cancel'> = { state: 'running', done: 0, total: undefined, result: undefined, error: undefined };
    const show = (isLast: boolean) => {
      if (!isLast && performance.now() - shown < SHOW_MS) return;
      shown = performance.now();
      setRun(now);
    };
    show(true);
    const report: Report = (done, total) => {
      now = { ...now, done, total };
      show(false);
    };
    const result = (value: T) => {
      now = { ...now, result: value };
    };
    work(own.signal, report, result)
      .then(
        () => {
          now = { ...now, state: own.signal.aborted ? 'cancelled' : 'finished' };
        },
        (error) => {
          now = own.signal.aborted ? { ...now, state: 'cancelled' } : { ...now, state: 'failed', error };
        },
      )
      .then(() => show(true));
  };
  return { ...run, start, cancel: () => aborter.current?.abort() };
}
