// Finds the document that a value names.

import { call, path } from '../../api/http.ts';
import { httpName, namespace } from '../../api/names.ts';
import { idText, objectId, reference } from '../../json/ids.ts';
import type { Node } from '../../json/node.ts';
import { databases } from '../../state/databases.ts';
import { may } from '../../state/session.ts';

/** A document. */
export interface Target {
  readonly db: string;
  readonly id: string;
}

/** Databases that are asked for an id, the likeliest first. */
const MOST_DATABASES = 60;

/** Requests at the same time. */
const AT_ONCE = 4;

/** A field whose text may be the id of a document. */
const NAMES_DOCUMENT = /(^|[._-])(id|ids|ref)$|Ids?$|Ref$/;

/** Whether a value may name a document. */
export function mayNameDocument(name: string, value: Node): boolean {
  if (reference(value) || objectId(value) !== undefined) return true;
  const isName = NAMES_DOCUMENT.test(name);
  return isName && ((value.kind === 'string' && value.value !== '') || (value.kind === 'number' && name !== 'id'));
}

/** The documents that a value names. */
export async function targets(db: string, name: string, value: Node, signal?: AbortSignal): Promise<Target[]> {
  const named = reference(value);
  if (named) {
    const collection = { database: named.database ?? namespace(db).database, collection: named.collection };
    const other = httpName(collection);
    return other === undefined ? [] : existing([other], idText(named.id), signal);
  }
  const id = idText(value);
  const here = await existing([db], id, signal);
  return here.length > 0 ? here : existing(likely(db, name), id, signal);
}

/** Other databases: those that the field's name resembles come first, then those of the same group. */
function likely(db: string, name: string): string[] {
  const stem = name.replace(/[._-]?(ids?|ref)$/i, '').toLowerCase();
  const { database } = namespace(db);
  const rank = (other: { name: string; group: string; collection: string }) => {
    const collection = other.collection.toLowerCase();
    const resembles = stem !== '' && (collection.startsWith(stem) || stem.startsWith(collection.replace(/e?s$/, '')));
    return (resembles ? 0 : 2) + (other.group === database ? 0 : 1);
  };
  return (databases.value ?? [])
    .filter((other) => other.name !== db && !other.isView && may('find', other.name))
    .sort((a, b) => rank(a) - rank(b))
    .slice(0, MOST_DATABASES)
    .map((other) => other.name);
}

/** The databases that have a document with this id. */
async function existing(names: readonly string[], id: string, signal?: AbortSignal): Promise<Target[]> {
  const found: Target[] = [];
  for (let start = 0; start < names.length; start += AT_ONCE) {
    const some = names.slice(start, start + AT_ONCE);
    const answers = await Promise.all(
      some.map(async (db) => {
        try {
          const { rows } = await call<{ rows: { id?: string; value?: { deleted?: boolean } }[] }>('POST', path(db, '_all_docs'), { json: { keys: [id] }, signal });
          return rows[0]?.id !== undefined && !rows[0].value?.deleted;
        } catch {
          // A database that cannot be read, or that no longer exists, does not have it for this user.
          return false;
        }
      }),
    );
    some.forEach((db, index) => answers[index] && found.push({ db, id }));
    // The likeliest databases stand first: what they have is enough.
    if (found.length > 0) break;
  }
  return found;
}
