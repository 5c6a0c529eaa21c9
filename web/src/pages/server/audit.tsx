// The last entries of the audit log: who signed in, who changed users and rights, what was refused.

import { useState } from 'preact/hooks';
import { call } from '../../api/http.ts';
import { useInterval, useLoad } from '../../state/load.ts';
import { Empty, Field, Shown } from '../../ui/basics.tsx';

interface Entry {
  /** Milliseconds since 1970. */
  readonly ts: number;
  readonly event: string;
  readonly address?: string;
  readonly user?: { readonly user: string; readonly db: string } | null;
  readonly [member: string]: unknown;
}

const REFRESH_MS = 5000;
const SHOWN = ['ts', 'event', 'address', 'user'];

export function AuditPage() {
  const [find, setFind] = useState('');
  const loaded = useLoad(async (signal) => (await call<{ entries: Entry[] }>('GET', '/_diwan/audit', { query: { limit: 500 }, signal })).entries, []);
  useInterval(loaded.reload, REFRESH_MS);
  const wanted = find.trim().toLowerCase();
  return (
    <div class="page audit">
      <div class="toolbar">
        <span class="soft">The last 500 entries since the server started, the newest first. Start the server with --audit to keep them in a file.</span>
        <span class="space" />
        <Field label="Find">{(id) => <input id={id} type="search" value={find} onInput={(event) => setFind(event.currentTarget.value)} />}</Field>
      </div>
      <Shown of={loaded}>
        {(entries) => {
          const shown = entries.filter((entry) => wanted === '' || JSON.stringify(entry).toLowerCase().includes(wanted));
          if (shown.length === 0) return <Empty title={entries.length === 0 ? 'No entries yet' : 'No entry contains this text'} />;
          return (
            <div class="wide-table panel" role="region" aria-label="Audit entries" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">Time</th>
                    <th scope="col">Event</th>
                    <th scope="col">User</th>
                    <th scope="col">Address</th>
                    <th scope="col">More</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((entry, index) => (
                    <tr key={index}>
                      <td>{new Date(entry.ts).toLocaleString()}</td>
                      <td>
                        <span class={/failed|refused/i.test(entry.event) || entry['ok'] === false ? 'badge danger' : 'badge'}>{entry.event}</span>
                      </td>
                      <td>{entry.user?.user}</td>
                      <td class="mono">{entry.address ?? ''}</td>
                      <td class="mono">{moreOf(entry)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          );
        }}
      </Shown>
    </div>
  );
}

function moreOf(entry: Entry): string {
  return Object.entries(entry)
    .filter(([name]) => !SHOWN.includes(name))
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}
