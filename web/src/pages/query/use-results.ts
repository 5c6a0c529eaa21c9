// The results of the query that runs.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { Node } from '../../json/node.ts';
import type { Parsed } from './request.ts';
import { results } from './results.ts';

/** The documents that are read before the person is asked for more. */
const STEP = 500;

export interface RunningQuery {
  readonly state: 'idle' | 'running' | 'paused' | 'finished' | 'cancelled' | 'failed';
  readonly docs: readonly Node[];
  readonly error: unknown;
  /** Milliseconds until the first batch. */
  readonly firstMillis: number | undefined;
  readonly start: (query: Parsed) => void;
  /** Reads more of a query that is paused. */
  readonly more: () => void;
  readonly cancel: () => void;
}

type State = Pick<RunningQuery, 'state' | 'docs' | 'error' | 'firstMillis'>;

const IDLE: State = { state: 'idle', docs: [], error: undefined, firstMillis: undefined };

/** Runs one query at a time. A query with many results pauses until `more` is called. */
export function useResults(db: string): RunningQuery {
  const [shown, setShown] = useState<State>(IDLE);
  const current = useRef<{ aborter: AbortController; batches: AsyncGenerator<readonly Node[]>; docs: Node[]; firstMillis: number | undefined }>(undefined);
  const stop = () => {
    const run = current.current;
    current.current = undefined;
    run?.aborter.abort();
    // Frees the cursor. The generator of an aborted request fails by itself.
    run?.batches.return(undefined).catch(() => undefined);
  };
  useEffect(() => stop, [db]);

  const read = async () => {
    const run = current.current;
    if (!run) return;
    const { docs } = run;
    const begun = performance.now();
    const until = docs.length + STEP;
    const show = (state: State['state'], error?: unknown) => {
      if (current.current === run) setShown({ state, docs: [...docs], error, firstMillis: run.firstMillis });
    };
    show('running');
    try {
      while (docs.length < until) {
        const { done, value } = await run.batches.next();
        if (current.current !== run) return;
        run.firstMillis ??= performance.now() - begun;
        if (done) return show('finished');
        docs.push(...value);
        show('running');
      }
      show('paused');
    } catch (error) {
      show(run.aborter.signal.aborted ? 'cancelled' : 'failed', error);
    }
  };

  const start = (query: Parsed) => {
    stop();
    const aborter = new AbortController();
    current.current = { aborter, batches: results(db, query, aborter.signal), docs: [], firstMillis: undefined };
    read();
  };
  const cancel = () => {
    const run = current.current;
    if (!run) return;
    setShown({ state: 'cancelled', docs: [...run.docs], error: undefined, firstMillis: run.firstMillis });
    stop();
  };
  return { ...shown, start, more: read, cancel };
}
