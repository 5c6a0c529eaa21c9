// The databases that the user may see, for the tree and the search.

import { signal } from '@preact/signals';
import { plainCommand } from '../api/command.ts';
import { call } from '../api/http.ts';
import { httpName, namespace } from '../api/names.ts';

/** One collection. */
export interface Database {
  /** Its name over HTTP. */
  readonly name: string;
  /** Its database for MongoDB's drivers. */
  readonly group: string;
  readonly collection: string;
  /** Whether it is a view, which only commands read. */
  readonly isView: boolean;
  readonly documents?: number;
  readonly bytes?: number;
}

/** The collections by group and name; nothing before the first answer. */
export const databases = signal<readonly Database[] | undefined>(undefined);

interface Info {
  readonly key: string;
  readonly info?: { doc_count: number; sizes: { external: number } };
}

/** The most databases that one request of `_dbs_info` may name. */
const INFO_KEYS = 100;

/** How many databases show their sizes at once. Servers with more show the sizes of the first ones. */
const SIZED = 1000;

/** Loads the list, then counts and sizes. */
export async function loadDatabases(): Promise<void> {
  const listed = await plainCommand<{ databases: { name: string }[] }>('admin', [
    ['listDatabases', 1],
    ['nameOnly', true],
    ['authorizedDatabases', true],
  ]);
  const found: Database[] = [];
  for (const { name: group } of listed.databases) {
    const reply = await plainCommand<{ cursor: { firstBatch: { name: string; type: string }[] } }>(group, [
      ['listCollections', 1],
      ['nameOnly', true],
      ['authorizedCollections', true],
      ['cursor', { batchSize: 100_000 }],
    ]);
    for (const { name: collection, type } of reply.cursor.firstBatch) {
      const name = httpName({ database: group, collection });
      if (name !== undefined) found.push({ name, group, collection, isView: type === 'view' });
    }
  }
  found.sort((a, b) => a.group.localeCompare(b.group) || a.collection.localeCompare(b.collection));
  const known = new Map(databases.value?.map((database) => [database.name, database]));
  databases.value = found.map((database) => ({ ...known.get(database.name), ...database }));
  await loadSizes(found.filter(({ isView }) => !isView).slice(0, SIZED).map(({ name }) => name));
}

async function loadSizes(names: readonly string[]): Promise<void> {
  const sizes = new Map<string, Info['info']>();
  for (let start = 0; start < names.length; start += INFO_KEYS) {
    const infos = await call<Info[]>('POST', '/_dbs_info', { json: { keys: names.slice(start, start + INFO_KEYS) } });
    for (const { key, info } of infos) sizes.set(key, info);
  }
  databases.value = databases.value?.map((database) => {
    const info = sizes.get(database.name);
    return info ? { ...database, documents: info.doc_count, bytes: info.sizes.external } : database;
  });
}

/** The information on one database. */
export function databaseInfo(db: string, signal?: AbortSignal): Promise<{ doc_count: number; doc_del_count: number; sizes: { external: number; file: number }; update_seq: string }> {
  return call('GET', `/${encodeURIComponent(db)}`, { signal });
}

/** The name of a database as people see it: `shop / orders`. */
export function shownName(db: string): string {
  const { database, collection } = namespace(db);
  return database === 'test' || database === 'admin' ? db : `${database} / ${collection.replaceAll('＄', '$')}`;
}
