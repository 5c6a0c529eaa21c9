// The documents of a database that have conflicts.

import { useEffect, useRef, useState } from 'preact/hooks';
import { call, path, returns } from '../../api/http.ts';
import { link } from '../../state/router.ts';
import { count, Empty, ErrorBox } from '../../ui/basics.tsx';
import type { DatabasePageProps } from '../registry.ts';

interface Row {
  readonly id: string;
  readonly winner: string;
  readonly conflicts: readonly string[];
}

interface Answer {
  readonly rows: readonly Row[];
  readonly next: string | null;
}

/** The rows that are looked for before the person is asked for more. */
const STEP = 200;

interface Search {
  readonly rows: readonly Row[];
  /** Where the next request begins; null at the end. */
  readonly next: string | null | undefined;
}

const BEGINNING: Search = { rows: [], next: undefined };

export function ConflictsPage({ db }: DatabasePageProps) {
  const [found, setFound] = useState(BEGINNING);
  const [error, setError] = useState<unknown>();
  const [isSearching, setSearching] = useState(true);
  const [turn, setTurn] = useState(0);
  // Beside the state, so that a search goes on where the last one has ended or failed.
  const reached = useRef({ found: BEGINNING, back: returns.value });
  const back = returns.value;
  useEffect(() => {
    const aborter = new AbortController();
    if (reached.current.back !== back) reached.current = { found: BEGINNING, back };
    const read = async () => {
      const until = reached.current.found.rows.length + STEP;
      for (;;) {
        const { rows, next } = reached.current.found;
        const answer = await call<Answer>('GET', path('_diwan', 'conflicts', db), { query: { start: next ?? undefined, limit: STEP }, signal: aborter.signal });
        if (aborter.signal.aborted) return;
        reached.current.found = { rows: [...rows, ...answer.rows], next: answer.next };
        setFound(reached.current.found);
        if (answer.next === null || reached.current.found.rows.length >= until) return;
      }
    };
    setError(undefined);
    setSearching(true);
    read()
      .catch((caught) => !aborter.signal.aborted && setError(caught))
      .finally(() => !aborter.signal.aborted && setSearching(false));
    return () => aborter.abort();
  }, [db, turn, back]);
  const { rows, next } = found;
  const goOn = () => setTurn(turn + 1);
  return (
    <div class="page">
      <div class="toolbar">
        <span class="soft" role="status">
          {isSearching ? 'Looking for conflicts… ' : ''}
          {count(rows.length)} {rows.length === 1 ? 'document has' : 'documents have'} conflicts{next === null ? '.' : ' so far.'}
        </span>
        {typeof next === 'string' && !isSearching && error === undefined && (
          <button type="button" onClick={goOn}>
            Look for more
          </button>
        )}
      </div>
      {error !== undefined && <ErrorBox error={error} retry={goOn} />}
      {rows.length === 0 && next === null && (
        <Empty title="No conflicts">
          <p class="soft">A conflict arises when two copies of a document are changed, and replication brings both changes together.</p>
        </Empty>
      )}
      {rows.length > 0 && (
        <div class="wide-table panel" role="region" aria-label="Documents with conflicts" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Document</th>
                <th scope="col">Winner</th>
                <th scope="col">In conflict</th>
                <th scope="col">
                  <span class="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ id, winner, conflicts }) => (
                <tr key={id}>
                  <td>
                    <a class="mono" href={link(['db', db, 'doc', id])}>
                      {id}
                    </a>
                  </td>
                  <td>
                    <code>{winner}</code>
                  </td>
                  <td>
                    {conflicts.map((rev) => (
                      <div key={rev}>
                        <code>{rev}</code>
                      </div>
                    ))}
                  </td>
                  <td>
                    <a class="button" href={link(['db', db, 'revisions', id])} aria-label={`Resolve ${id}`}>
                      Resolve
                    </a>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
