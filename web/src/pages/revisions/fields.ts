// Two versions of a document field by field, and what becomes of them when they are merged.

import { object, same, type Entry, type Node, type ObjectNode } from '../../json/node.ts';
import { typeName } from '../../json/print.ts';

/** A field that at least one version has. Fields of objects that both versions have are listed one by one. */
export interface FieldPair {
  /** The names from the outermost object to the field. */
  readonly path: readonly string[];
  readonly left: Node | undefined;
  readonly right: Node | undefined;
  readonly differs: boolean;
}

const isPlainObject = (node: Node | undefined): node is ObjectNode => node?.kind === 'object' && typeName(node) === 'object';

/** The fields of two versions, in the order of the left one; fields of the right one alone come last. */
export function fieldPairs(left: ObjectNode, right: ObjectNode, path: readonly string[] = []): FieldPair[] {
  const others = new Map(right.entries);
  const names = [...left.entries.map(([name]) => name)];
  const known = new Set(names);
  names.push(...right.entries.map(([name]) => name).filter((name) => !known.has(name)));
  const own = new Map(left.entries);
  return names.flatMap((name): FieldPair[] => {
    const [a, b] = [own.get(name), others.get(name)];
    if (same(a, b)) return [{ path: [...path, name], left: a, right: b, differs: false }];
    if (isPlainObject(a) && isPlainObject(b)) return fieldPairs(a, b, [...path, name]);
    return [{ path: [...path, name], left: a, right: b, differs: true }];
  });
}

/** Where the value of a merged field comes from. A text that is no value yet has none. */
export type Choice = { readonly from: 'left' | 'right' } | { readonly from: 'typed'; readonly text: string; readonly value: Node | undefined };

/** The key of a path in a map of choices. */
export const pathKey = (path: readonly string[]) => JSON.stringify(path);

/** What a path has in a version. */
export function valueAt(node: Node | undefined, path: readonly string[]): Node | undefined {
  return path.reduce<Node | undefined>((found, name) => (found?.kind === 'object' ? found.entries.find(([key]) => key === name)?.[1] : undefined), node);
}

/**
 * The choices that need no person: where only one side differs from the version that both began with, that side's value is
 * taken. Without such a version, or where both sides differ, there is no choice.
 */
export function ownChoices(pairs: readonly FieldPair[], base: ObjectNode | undefined): Map<string, Choice> {
  const choices = new Map<string, Choice>();
  if (!base) return choices;
  for (const { path, left, right, differs } of pairs) {
    if (!differs) continue;
    const before = valueAt(base, path);
    if (same(left, before)) choices.set(pathKey(path), { from: 'right' });
    else if (same(right, before)) choices.set(pathKey(path), { from: 'left' });
  }
  return choices;
}

/** The differing fields for which there is no valid choice yet. */
export function undecided(pairs: readonly FieldPair[], choices: ReadonlyMap<string, Choice>): FieldPair[] {
  return pairs.filter(({ path, differs }) => {
    const choice = choices.get(pathKey(path));
    return differs && (!choice || (choice.from === 'typed' && choice.value === undefined));
  });
}

/** The merged document. Fields without a choice keep the left value. */
export function merged(left: ObjectNode, right: ObjectNode, choices: ReadonlyMap<string, Choice>, path: readonly string[] = []): ObjectNode {
  const result: Entry[] = [];
  const others = new Map(right.entries);
  const own = new Map(left.entries);
  const names = [...own.keys(), ...[...others.keys()].filter((name) => !own.has(name))];
  for (const name of names) {
    const [a, b] = [own.get(name), others.get(name)];
    const choice = choices.get(pathKey([...path, name]));
    let value: Node | undefined;
    if (!choice && !same(a, b) && isPlainObject(a) && isPlainObject(b)) value = merged(a, b, choices, [...path, name]);
    else value = choice?.from === 'typed' ? choice.value : choice?.from === 'right' ? b : a;
    if (value !== undefined) result.push([name, value]);
  }
  return object(result);
}
