// Queries that are kept: the last ones in the browser, saved ones as documents of a database, so that they replicate.

import { all, on } from '../../api/command.ts';
import { call, Failure, documentPath, path } from '../../api/http.ts';
import { toPlain } from '../../json/node.ts';
import { remembered } from '../../state/remembered.ts';
import type { QueryText } from './request.ts';

/** The database of saved queries. */
export const SAVED = 'diwan/queries';

/** The queries that the history keeps. */
const MOST_HISTORY = 50;

export interface HistoryEntry extends QueryText {
  /** Milliseconds since 1970. */
  readonly at: number;
}

const store = (db: string) => remembered<readonly HistoryEntry[]>(`history.${db}`, []);

/** The last queries of a database, the newest first. */
export function historyOf(db: string): readonly HistoryEntry[] {
  return store(db).get();
}

/** Puts a query at the beginning of the history. */
export function addToHistory(db: string, query: QueryText): void {
  const { kind, text, projection, sort, skip, limit, reduce } = query;
  const isSame = (entry: QueryText) => [entry.kind, entry.text, entry.projection, entry.sort, entry.skip, entry.limit, entry.reduce].every((value, index) => value === [kind, text, projection, sort, skip, limit, reduce][index]);
  const others = historyOf(db).filter((entry) => !isSame(entry));
  store(db).set([{ kind, text, projection, sort, skip, limit, reduce, at: Date.now() }, ...others].slice(0, MOST_HISTORY));
}

export interface SavedQuery extends QueryText {
  readonly _id: string;
  readonly name: string;
  readonly db: string;
}

/** The saved queries of a database by name. */
export async function savedQueries(db: string, signal: AbortSignal): Promise<SavedQuery[]> {
  const found = await all(...on(SAVED, 'find', [['filter', { type: 'query', db }], ['sort', { name: 1 }]]), signal);
  return found.map((doc) => toPlain(doc) as SavedQuery);
}

/** Saves a query under a name. The database of saved queries is created with the first one. */
export async function saveQuery(db: string, name: string, query: QueryText): Promise<void> {
  try {
    await call('PUT', path(SAVED));
  } catch (error) {
    if (!(error instanceof Failure) || error.status !== 412) throw error;
  }
  const { kind, text, projection, sort, skip, limit, reduce } = query;
  await call('POST', path(SAVED), { json: { type: 'query', name, db, kind, text, projection, sort, skip, limit, reduce } });
}

/** Deletes a saved query. */
export async function deleteSaved(id: string): Promise<void> {
  const { _rev } = await call<{ _rev: string }>('GET', documentPath(SAVED, id));
  await call('DELETE', documentPath(SAVED, id), { query: { rev: _rev } });
}
