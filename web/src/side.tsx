// The tree of databases, and the links to the server's pages.

import { useMemo, useState } from 'preact/hooks';
import { databases, type Database } from './state/databases.ts';
import { link, place } from './state/router.ts';
import { may } from './state/session.ts';
import { bytes, count } from './ui/basics.tsx';
import { serverPages } from './pages/registry.ts';

export function Side({ open }: { open: boolean }) {
  const [filter, setFilter] = useState('');
  const all = databases.value;
  const groups = useMemo(() => grouped(all ?? [], filter), [all, filter]);
  const [area, current] = place.value.segments;
  return (
    <nav class={open ? 'side open' : 'side'} aria-label="Databases and server">
      <div class="side-search">
        <input type="search" placeholder="Find a database" aria-label="Find a database" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        <a class="button" href="#/new" aria-label="New database" title="New database">
          +
        </a>
      </div>
      <div class="side-tree">
        {groups.map(([group, members]) => (
          <section key={group} aria-label={`Database ${group}`}>
            <h2>{group}</h2>
            <ul>
              {members.map((database) => (
                <li key={database.name}>
                  <a
                    href={link(['db', database.name, database.isView ? 'query' : 'documents'])}
                    aria-current={area === 'db' && current === database.name ? 'page' : undefined}
                    title={database.bytes === undefined ? database.name : `${database.name}: ${count(database.documents)} documents, ${bytes(database.bytes)}`}
                  >
                    <span class="name">{database.collection.replaceAll('＄', '$')}</span>
                    <span class="soft">{database.isView ? 'view' : database.documents === undefined ? '' : count(database.documents)}</span>
                  </a>
                </li>
              ))}
            </ul>
          </section>
        ))}
        {all?.length === 0 && <p class="loading">No databases yet.</p>}
        {all !== undefined && all.length > 0 && groups.length === 0 && <p class="loading">No database has this name.</p>}
      </div>
      <section class="side-server" aria-label="Server">
        <h2>Server</h2>
        <ul>
          {serverPages
            .filter((page) => page.action === undefined || may(page.action))
            .map((page) => (
              <li key={page.name}>
                <a href={link(['server', page.name])} aria-current={area === 'server' && current === page.name ? 'page' : undefined}>
                  {page.label}
                </a>
              </li>
            ))}
        </ul>
      </section>
    </nav>
  );
}

/** The databases whose name contains the filter, by group. */
function grouped(all: readonly Database[], filter: string): [string, Database[]][] {
  const groups = new Map<string, Database[]>();
  const wanted = filter.toLowerCase();
  for (const database of all) {
    if (!database.name.toLowerCase().includes(wanted)) continue;
    const members = groups.get(database.group);
    if (members) members.push(database);
    else groups.set(database.group, [database]);
  }
  return [...groups];
}
