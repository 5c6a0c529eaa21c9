// The first page: what is in here, sample data for those who start, and how to connect.

import { useState } from 'preact/hooks';
import { call } from '../../api/http.ts';
import { loadStatus } from '../../api/status.ts';
import { databases, loadDatabases, shownName } from '../../state/databases.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { link } from '../../state/router.ts';
import { isAdministrator } from '../../state/session.ts';
import { bytes, count, Shown } from '../../ui/basics.tsx';
import { Connect } from './connect.tsx';

interface Sample {
  readonly name: string;
  readonly title: string;
  readonly text: string;
  readonly count?: number;
}

const SAMPLES: readonly Sample[] = [
  { name: 'library', title: 'Library', text: 'Books and authors that refer to each other, a view, a conflict and an attachment.' },
  { name: 'persons', title: 'Persons', text: '100,000 persons with names, ages and salaries: enough to see what an index does.', count: 100_000 },
];

interface Trial {
  readonly title: string;
  readonly text: string;
  readonly href: string;
  /** The database that it needs. */
  readonly db: string;
}

const TRIALS: readonly Trial[] = [
  { db: 'library', title: 'Books before 1850', text: 'A filter of MongoDB', href: link(['db', 'library', 'query'], { filter: '{ type: "book", year: { $lt: 1850 } }', sort: '{ year: 1 }' }) },
  {
    db: 'library',
    title: 'Books of each country',
    text: 'A pipeline that joins books with their authors',
    href: link(['db', 'library', 'query'], {
      kind: 'pipeline',
      text: '[\n  { $match: { type: "book" } },\n  { $lookup: { from: "library", localField: "author.$id", foreignField: "_id", as: "author" } },\n  { $unwind: "$author" },\n  { $group: { _id: "$author.country", books: { $sum: 1 }, titles: { $push: "$title" } } },\n  { $sort: { books: -1 } }\n]',
    }),
  },
  {
    db: 'persons',
    title: 'Persons who are 30 years old',
    text: 'A Mango selector. Its plan proposes an index',
    href: link(['db', 'persons', 'query'], { kind: 'selector', text: '{\n  "selector": { "age": 30 },\n  "fields": ["name", "salary"],\n  "limit": 100\n}' }),
  },
];

export function StartPage() {
  const status = useLoad(loadStatus, []);
  const all = databases.value;
  const own = (all ?? []).filter(({ name }) => !name.startsWith('_'));
  return (
    <div class="page start">
      <div class="page-head">
        <h1>Diwan</h1>
        {status.value && <span class="soft">version {status.value.version}</span>}
      </div>
      {all === undefined ? <p class="loading">Loading…</p> : own.length === 0 ? <Welcome /> : <Overview />}
      <section class="panel">
        <h2>Connect</h2>
        <Shown of={status}>{(value) => <Connect status={value} />}</Shown>
      </section>
    </div>
  );
}

/** For a server without databases. */
function Welcome() {
  return (
    <section class="panel">
      <h2>Nothing is in here yet</h2>
      {isAdministrator.value ? (
        <>
          <p>Start with sample data, or create a database of your own.</p>
          <Samples />
          <p>
            <a class="button" href="#/new">
              New database
            </a>
          </p>
        </>
      ) : (
        <p>You may not read any database. An administrator can give you a role.</p>
      )}
    </section>
  );
}

function Samples() {
  const [busy, setBusy] = useState<string>();
  const create = async (sample: Sample) => {
    setBusy(sample.name);
    try {
      const { db, documents } = await call<{ db: string; documents: number }>('POST', '/_diwan/sample', { json: { name: sample.name, count: sample.count } });
      await loadDatabases();
      done(`${db} has ${count(documents)} documents.`);
    } catch (error) {
      failed(error);
    } finally {
      setBusy(undefined);
    }
  };
  const missing = SAMPLES.filter(({ name }) => !databases.value?.some((database) => database.name === name));
  return (
    <div class="cards samples">
      {missing.map((sample) => (
        <div key={sample.name} class="card">
          <h3>{sample.title}</h3>
          <p class="soft">{sample.text}</p>
          <button type="button" class="primary" disabled={busy !== undefined} onClick={() => create(sample)}>
            {busy === sample.name ? 'Creating…' : `Create ${sample.name}`}
          </button>
        </div>
      ))}
    </div>
  );
}

/** For a server with databases: the largest ones, and what to try with the samples. */
function Overview() {
  const all = databases.value ?? [];
  const largest = all.filter(({ name, isView }) => !isView && !name.startsWith('_')).sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0)).slice(0, 12);
  const trials = TRIALS.filter(({ db }) => all.some(({ name }) => name === db));
  const hasMore = SAMPLES.some(({ name }) => !all.some((database) => database.name === name));
  return (
    <>
      <section class="panel" aria-label="Databases">
        <div class="toolbar">
          <h2>Databases</h2>
          <span class="soft">{largest.length < all.length ? 'the largest' : ''}</span>
        </div>
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="number">
                Documents
              </th>
              <th scope="col" class="number">
                Size
              </th>
            </tr>
          </thead>
          <tbody>
            {largest.map((database) => (
              <tr key={database.name}>
                <td>
                  <a href={link(['db', database.name, 'documents'])}>{shownName(database.name)}</a>
                </td>
                <td class="number">{count(database.documents)}</td>
                <td class="number">{bytes(database.bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {trials.length > 0 && (
        <section class="panel" aria-label="Queries to try">
          <h2>Queries to try</h2>
          <div class="cards">
            {trials.map((trial) => (
              <a key={trial.title} class="card" href={trial.href}>
                <strong>{trial.title}</strong>
                <span class="soft">{trial.text}</span>
              </a>
            ))}
          </div>
        </section>
      )}
      {isAdministrator.value && hasMore && (
        <details>
          <summary>Sample data</summary>
          <Samples />
        </details>
      )}
    </>
  );
}
