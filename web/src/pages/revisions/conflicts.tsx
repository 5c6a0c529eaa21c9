// The documents of a database that have conflicts.

import { useEffect, useState } from 'preact/hooks';
import { call, path } from '../../api/http.ts';
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

export function ConflictsPage({ db }: DatabasePageProps) {
  const [rows, setRows] = useState<readonly Row[]>([]);
  const [next, setNext] = useState<string | null>();
  const [error, setError] = useState<unknown>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const aborter = new AbortController();
    const read = async () => {
      const found = turn === 0 ? [] : [...rows];
      const until = found.length + STEP;
      let start = turn === 0 ? undefined : (next ?? undefined);
      for (;;) {
        const answer = await call<Answer>('GET', path('_diwan', 'conflicts', db), { query: { start, limit: STEP }, signal: aborter.signal });
        found.push(...answer.rows);
        setRows([...found]);
        if (answer.next === null || found.length >= until) return answer.next;
        start = answer.next;
      }
    };
    setError(undefined);
    read().then(setNext, (caught) => !aborter.signal.aborted && setError(caught));
    return () => aborter.abort();
  }, [db, turn]);
  const isSearching = next === undefined && error === undefined;
  return (
    <div class="page">
      <div class="toolbar">
        <span class="soft" role="status">
          {isSearching ? 'Looking for conflicts… ' : ''}
          {count(rows.length)} {rows.length === 1 ? 'document has' : 'documents have'} conflicts{typeof next === 'string' ? ' so far.' : '.'}
        </span>
        {typeof next === 'string' && (
          <button
            type="button"
            onClick={() => {
              setNext(undefined);
              setTurn(turn + 1);
            }}
          >
            Look for more
          </button>
        )}
      </div>
      {error !== undefined && <ErrorBox error={error} />}
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
