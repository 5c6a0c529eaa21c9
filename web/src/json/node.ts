// Documents as trees that keep what `JSON.parse` loses: the order of fields whose names are numbers, the digits of long
// numbers, and the difference between `1` and `1.0`.

/** A value of a document. `number` keeps the digits as they were written. */
export type Node =
  | { readonly kind: 'null' }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'array'; readonly items: readonly Node[] }
  | { readonly kind: 'object'; readonly entries: readonly Entry[] };

export type Entry = readonly [name: string, value: Node];

export type ObjectNode = Extract<Node, { kind: 'object' }>;

export const string = (value: string): Node => ({ kind: 'string', value });
export const number = (value: number | string): Node => ({ kind: 'number', text: String(value) });
export const boolean = (value: boolean): Node => ({ kind: 'boolean', value });
export const nothing: Node = { kind: 'null' };
export const array = (items: readonly Node[]): Node => ({ kind: 'array', items });
export const object = (entries: readonly Entry[]): ObjectNode => ({ kind: 'object', entries });

/** The value of a field, if `node` is an object that has it. */
export function field(node: Node | undefined, name: string): Node | undefined {
  return node?.kind === 'object' ? node.entries.find(([key]) => key === name)?.[1] : undefined;
}

/** The value at a dotted path. A number in the path names an element of an array. */
export function at(node: Node | undefined, path: string): Node | undefined {
  return path.split('.').reduce<Node | undefined>((found, part) => {
    return found?.kind === 'array' ? found.items[Number(part)] : field(found, part);
  }, node);
}

/** The same object with one field set; a new field is appended. */
export function withField(node: ObjectNode, name: string, value: Node): ObjectNode {
  const has = node.entries.some(([key]) => key === name);
  const entries = node.entries.map((entry): Entry => (entry[0] === name ? [name, value] : entry));
  return object(has ? entries : [...entries, [name, value]]);
}

/** The same object without some fields. */
export function without(node: ObjectNode, names: readonly string[]): ObjectNode {
  return object(node.entries.filter(([name]) => !names.includes(name)));
}

/** A plain value as a tree. `undefined` fields are left out. */
export function fromPlain(value: unknown): Node {
  if (value === null || value === undefined) return nothing;
  if (typeof value === 'boolean') return boolean(value);
  if (typeof value === 'number') return Number.isFinite(value) ? number(value) : object([['$numberDouble', string(String(value))]]);
  if (typeof value === 'string') return string(value);
  if (Array.isArray(value)) return array(value.map(fromPlain));
  const entries = Object.entries(value as Record<string, unknown>).filter(([, item]) => item !== undefined);
  return object(entries.map(([name, item]): Entry => [name, fromPlain(item)]));
}

/** A tree as a plain value. Long numbers lose digits: never write the result back into a document. */
export function toPlain(node: Node): unknown {
  switch (node.kind) {
    case 'null':
      return null;
    case 'boolean':
    case 'string':
      return node.value;
    case 'number':
      return Number(node.text);
    case 'array':
      return node.items.map(toPlain);
    case 'object': {
      const plain: Record<string, unknown> = {};
      // `__proto__` must become an ordinary field.
      for (const [name, value] of node.entries) Object.defineProperty(plain, name, { value: toPlain(value), enumerable: true, configurable: true, writable: true });
      return plain;
    }
  }
}

/** Whether two values are written alike. */
export function same(a: Node | undefined, b: Node | undefined): boolean {
  if (a === b) return true;
  if (!a || !b || a.kind !== b.kind) return false;
  switch (a.kind) {
    case 'null':
      return true;
    case 'boolean':
    case 'string':
      return a.value === (b as typeof a).value;
    case 'number':
      return a.text === (b as typeof a).text;
    case 'array': {
      const other = (b as typeof a).items;
      return a.items.length === other.length && a.items.every((item, index) => same(item, other[index]));
    }
    case 'object': {
      const other = (b as typeof a).entries;
      return (
        a.entries.length === other.length &&
        a.entries.every(([name, value], index) => other[index]![0] === name && same(value, other[index]![1]))
      );
    }
  }
}
