// Which documents an action is about: the selected ones, or all that match a filter.

import { batches, on, plainCommand } from '../../api/command.ts';
import { array, field, fromPlain, object, type Entry, type Node, type ObjectNode } from '../../json/node.ts';
import { idNode } from '../../json/ids.ts';

export type Scope =
  | { readonly kind: 'ids'; readonly ids: ReadonlyMap<string, string | undefined> }
  | { readonly kind: 'filter'; readonly filter: ObjectNode | undefined };

/** The ids of one step of a long work. */
const STEP = 500;

/** Everything but design documents, which are edited on their own page. */
const NOT_DESIGN = fromPlain({ $nor: [{ _id: { $gte: '_design/', $lt: '_design0' } }] });

export const idIn = (ids: readonly Node[]): ObjectNode => object([['_id', object([['$in', array(ids)]])]]);

/** A filter that all of `filters` must match. */
export const both = (...filters: readonly (Node | undefined)[]): ObjectNode => {
  const given = filters.filter((filter) => filter !== undefined);
  return given.length === 0 ? object([]) : object([['$and', array(given)] as Entry]);
};

/** The documents of a scope as a filter of MongoDB. */
export function scopeFilter(scope: Scope, withDesign: boolean): ObjectNode {
  if (scope.kind === 'ids') return idIn([...scope.ids.keys()].map(idNode));
  return both(scope.filter, withDesign ? undefined : NOT_DESIGN);
}

/** How many documents a scope has now. */
export async function countScope(db: string, scope: Scope, withDesign: boolean, signal?: AbortSignal): Promise<number> {
  if (scope.kind === 'ids') return scope.ids.size;
  return (await plainCommand<{ n: number }>(...on(db, 'count', [['query', scopeFilter(scope, withDesign)]]), signal)).n;
}

/** The ids of a scope in steps. Each id comes once, also while the documents are edited. */
export async function* idSteps(db: string, scope: Scope, signal: AbortSignal): AsyncGenerator<Node[]> {
  if (scope.kind === 'ids') {
    const ids = [...scope.ids.keys()].map(idNode);
    for (let start = 0; start < ids.length; start += STEP) yield ids.slice(start, start + STEP);
    return;
  }
  const find = on(db, 'find', [['filter', scopeFilter(scope, false)], ['projection', { _id: 1 }], ['sort', { _id: 1 }], ['batchSize', STEP]]);
  for await (const batch of batches(...find, signal)) yield batch.map((doc) => field(doc, '_id')!);
}

/** What an action is about, in words. */
export function scopeText(scope: Scope): string {
  if (scope.kind === 'ids') return scope.ids.size === 1 ? 'the selected document' : `the ${scope.ids.size} selected documents`;
  return scope.filter ? 'all documents that match the filter' : 'all documents';
}
