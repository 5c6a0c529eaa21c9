// From trees to text.

import type { Node } from './node.ts';

/** The width up to which an array or object stays on one line. */
const LINE = 80;

/** JSON in one line, as it is sent to the server. */
export function compact(node: Node): string {
  switch (node.kind) {
    case 'null':
      return 'null';
    case 'boolean':
      return String(node.value);
    case 'number':
      return node.text;
    case 'string':
      return JSON.stringify(node.value);
    case 'array':
      return `[${node.items.map(compact).join(',')}]`;
    case 'object':
      return `{${node.entries.map(([name, value]) => `${JSON.stringify(name)}:${compact(value)}`).join(',')}}`;
  }
}

/** JSON over several lines. Short arrays and objects stay on one line, but for the outermost. */
export function pretty(node: Node, indent = ''): string {
  const children = node.kind === 'array' ? node.items.length : node.kind === 'object' ? node.entries.length : 0;
  if (children === 0) return compact(node);
  const inner = `${indent}  `;
  const short = (value: Node) => {
    if (value.kind !== 'array' && value.kind !== 'object') return compact(value);
    const line = spaced(value, LINE - inner.length);
    return line ?? pretty(value, inner);
  };
  if (node.kind === 'array') {
    return `[\n${node.items.map((item) => inner + short(item)).join(',\n')}\n${indent}]`;
  }
  const entries = node.kind === 'object' ? node.entries : [];
  return `{\n${entries.map(([name, value]) => `${inner}${JSON.stringify(name)}: ${short(value)}`).join(',\n')}\n${indent}}`;
}

/** JSON in one line with spaces, or nothing if it is longer than `width`. */
function spaced(node: Node, width: number): string | undefined {
  let text: string;
  if (node.kind === 'array' || node.kind === 'object') {
    const parts: string[] = [];
    let left = width - 2;
    const children: readonly (readonly [string, Node])[] =
      node.kind === 'array' ? node.items.map((item) => ['', item] as const) : node.entries.map(([name, value]) => [`${JSON.stringify(name)}: `, value] as const);
    for (const [label, child] of children) {
      const line = spaced(child, left - label.length);
      if (line === undefined) return undefined;
      parts.push(label + line);
      left -= label.length + line.length + 2;
    }
    const body = parts.join(', ');
    text = node.kind === 'array' ? `[${body}]` : body === '' ? '{}' : `{ ${body} }`;
  } else {
    text = compact(node);
  }
  return text.length <= width ? text : undefined;
}

/** A value for a table's cell: special types as their text, long texts cut. */
export function brief(node: Node | undefined, width = 120): string {
  if (!node) return '';
  const special = specialText(node);
  const text = special ?? (node.kind === 'string' ? node.value : compactUpTo(node, width));
  return text.length > width ? `${text.slice(0, width - 1)}…` : text;
}

/** `compact` that stops soon after `width` characters. */
function compactUpTo(node: Node, width: number): string {
  if (node.kind !== 'array' && node.kind !== 'object') return compact(node);
  const [open, close] = node.kind === 'array' ? ['[', ']'] : ['{', '}'];
  let text = open;
  const children: readonly (readonly [string | null, Node])[] = node.kind === 'array' ? node.items.map((item) => [null, item] as const) : node.entries;
  for (const [index, [name, child]] of children.entries()) {
    if (text.length > width) return text;
    text += (index > 0 ? ', ' : '') + (name === null ? '' : `${name}: `) + (specialText(child) ?? compactUpTo(child, width - text.length));
  }
  return text + close;
}

/** The name of a value's type, as MongoDB's `$type` calls it. */
export function typeName(node: Node): string {
  if (node.kind === 'number') return /[.eE]/.test(node.text) ? 'double' : 'int';
  if (node.kind === 'boolean') return 'bool';
  if (node.kind !== 'object') return node.kind;
  const wrapper = WRAPPERS.get(node.entries[0]?.[0] ?? '');
  return wrapper && node.entries.length <= 2 ? wrapper : 'object';
}

/** Extended JSON's wrappers and the types that they stand for. */
const WRAPPERS = new Map([
  ['$oid', 'objectId'],
  ['$date', 'date'],
  ['$numberLong', 'long'],
  ['$numberDouble', 'double'],
  ['$numberInt', 'int'],
  ['$numberDecimal', 'decimal'],
  ['$binary', 'binData'],
  ['$uuid', 'binData'],
  ['$regularExpression', 'regex'],
  ['$timestamp', 'timestamp'],
  ['$minKey', 'minKey'],
  ['$maxKey', 'maxKey'],
  ['$undefined', 'undefined'],
  ['$code', 'javascript'],
  ['$symbol', 'symbol'],
  ['$dbPointer', 'dbPointer'],
]);

/** The text of a value of a special type, or nothing for ordinary values. */
export function specialText(node: Node): string | undefined {
  if (node.kind !== 'object' || typeName(node) === 'object') return undefined;
  const [name, value] = node.entries[0]!;
  if (name === '$date' && value.kind === 'object') {
    const millis = Number(value.entries[0]?.[1].kind === 'string' ? value.entries[0][1].value : NaN);
    return Number.isNaN(millis) || Math.abs(millis) > 8.64e15 ? compact(value) : new Date(millis).toISOString();
  }
  if (value.kind === 'string') return value.value;
  if (name === '$regularExpression') {
    const part = (key: string) => (value.kind === 'object' ? value.entries.find(([k]) => k === key)?.[1] : undefined);
    const text = (found: Node | undefined) => (found?.kind === 'string' ? found.value : '');
    return `/${text(part('pattern'))}/${text(part('options'))}`;
  }
  return name === '$minKey' || name === '$maxKey' || name === '$undefined' ? name.slice(1) : compact(value);
}
