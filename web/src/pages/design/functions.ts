// The functions of a design document.

import { field, object, string, withField, without, type Node, type ObjectNode } from '../../json/node.ts';

/** The kinds of functions that a design document has, with their singular names. */
export const GROUPS = [
  ['views', 'View'],
  ['filters', 'Filter'],
  ['updates', 'Update function'],
  ['shows', 'Show function'],
  ['lists', 'List function'],
] as const;

export type Group = (typeof GROUPS)[number][0];

/** A member that is one function. */
export const SINGLE = 'validate_doc_update';

/** A function of a design document: `views/by_year`, or `validate_doc_update`. */
export interface FunctionName {
  readonly group: Group | typeof SINGLE;
  readonly name: string;
}

/** All functions in the order of the document. */
export function functionsOf(body: ObjectNode): FunctionName[] {
  const found: FunctionName[] = [];
  for (const [group] of GROUPS) {
    const members = field(body, group);
    if (members?.kind !== 'object') continue;
    // `views.lib` holds modules, and the views of Mango indexes have no source: neither is a function.
    for (const [name, value] of members.entries) if ((group === 'views' ? field(value, 'map') : value)?.kind === 'string') found.push({ group, name });
  }
  if (field(body, SINGLE)?.kind === 'string') found.push({ group: SINGLE, name: '' });
  return found;
}

export function keyOf({ group, name }: FunctionName): string {
  return group === SINGLE ? group : `${group}/${name}`;
}

export function functionOf(key: string): FunctionName | undefined {
  if (key === SINGLE) return { group: SINGLE, name: '' };
  const slash = key.indexOf('/');
  const group = GROUPS.find(([each]) => each === key.slice(0, slash))?.[0];
  return group && { group, name: key.slice(slash + 1) };
}

function text(node: Node | undefined): string {
  return node?.kind === 'string' ? node.value : '';
}

/** The source of a function; of a view, its map function. */
export function sourceOf(body: ObjectNode, { group, name }: FunctionName): string {
  if (group === SINGLE) return text(field(body, SINGLE));
  const member = field(field(body, group), name);
  return group === 'views' ? text(field(member, 'map')) : text(member);
}

/** The reduce function of a view. */
export function reduceOf(body: ObjectNode, name: string): string {
  return text(field(field(field(body, 'views'), name), 'reduce'));
}

/** The document with another source; `reduce` is for views. */
export function withSource(body: ObjectNode, { group, name }: FunctionName, source: string, reduce?: string): ObjectNode {
  if (group === SINGLE) return withField(body, SINGLE, string(source));
  const members = field(body, group);
  const old = members?.kind === 'object' ? members : object([]);
  if (group !== 'views') return withField(body, group, withField(old, name, string(source)));
  const before = field(old, name);
  let view = withField(before?.kind === 'object' ? before : object([]), 'map', string(source));
  if (reduce !== undefined) view = reduce.trim() === '' ? without(view, ['reduce']) : withField(view, 'reduce', string(reduce));
  return withField(body, group, withField(old, name, view));
}

/** The document without a function. */
export function withoutFunction(body: ObjectNode, { group, name }: FunctionName): ObjectNode {
  if (group === SINGLE) return without(body, [SINGLE]);
  const members = field(body, group);
  if (members?.kind !== 'object') return body;
  const left = without(members, [name]);
  return left.entries.length === 0 ? without(body, [group]) : withField(body, group, left);
}

/** The first source of a function. */
export const TEMPLATES: Record<FunctionName['group'], string> = {
  views: 'function (doc) {\n  emit(doc._id, null);\n}',
  filters: 'function (doc, req) {\n  return true;\n}',
  updates: 'function (doc, req) {\n  return [doc, "done"];\n}',
  shows: 'function (doc, req) {\n  return { json: doc };\n}',
  lists: 'function (head, req) {\n  var row;\n  while ((row = getRow())) send(row.key + "\\n");\n}',
  validate_doc_update: 'function (newDoc, oldDoc, userCtx, secObj) {\n  if (!newDoc.type) throw { forbidden: "A document needs a type." };\n}',
};

/** The offset of a line and a column, which count from 1. */
export function offsetOf(source: string, line: number, column: number): number {
  const lines = source.split('\n');
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(source.length, before + Math.max(0, column - 1));
}
