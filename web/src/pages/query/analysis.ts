// The fields of a sample of documents: their types, how often they are there, and how their values are distributed.

import type { Node } from '../../json/node.ts';
import { specialText, typeName } from '../../json/print.ts';

/** What a sample has in one field. Paths have dots; elements of arrays have no path of their own. */
export interface FieldSummary {
  readonly path: string;
  /** The documents that have the field. */
  count: number;
  /** How many values there are of each type. An array counts as one value. */
  readonly types: Map<string, number>;
  /** The most frequent values with their counts, if the values repeat. */
  readonly values: Map<string, number>;
  /** The numbers and dates, as numbers. */
  readonly numbers: number[];
  /** Whether `numbers` are dates. */
  isDate: boolean;
}

/** Deeper fields are left out. */
const MOST_DEPTH = 6;

/** Documents with generated names have fields without end; those after these are left out. */
const MOST_FIELDS = 500;

/** Different values that are counted in a field. */
const MOST_VALUES = 1000;

const NUMBERS = ['int', 'long', 'double', 'decimal'];

/** Summarizes the fields of documents in the order in which they first occur. */
export function analyse(docs: readonly Node[]): FieldSummary[] {
  const fields = new Map<string, FieldSummary>();
  for (const doc of docs) visit(doc, '', 0, new Set(), fields);
  return [...fields.values()];
}

function visit(node: Node, prefix: string, depth: number, seen: Set<string>, fields: Map<string, FieldSummary>): void {
  if (node.kind !== 'object' || depth > MOST_DEPTH) return;
  for (const [name, value] of node.entries) {
    const path = prefix + name;
    let summary = fields.get(path);
    if (!summary) {
      if (fields.size >= MOST_FIELDS) continue;
      summary = { path, count: 0, types: new Map(), values: new Map(), numbers: [], isDate: false };
      fields.set(path, summary);
    }
    // An array of objects has a field once for each of them.
    if (!seen.has(path)) {
      seen.add(path);
      summary.count++;
    }
    add(summary, value);
    if (typeName(value) === 'object') visit(value, `${path}.`, depth + 1, seen, fields);
    if (value.kind === 'array') for (const item of value.items.slice(0, 100)) if (typeName(item) === 'object') visit(item, `${path}.`, depth + 1, seen, fields);
  }
}

function add(summary: FieldSummary, value: Node): void {
  const type = typeName(value);
  summary.types.set(type, (summary.types.get(type) ?? 0) + 1);
  if (type === 'object' || type === 'array') return;
  const text = specialText(value) ?? (value.kind === 'string' ? value.value : value.kind === 'number' ? value.text : String(value.kind === 'boolean' ? value.value : null));
  if (NUMBERS.includes(type)) {
    const number = Number(text);
    if (Number.isFinite(number)) summary.numbers.push(number);
  } else if (type === 'date') {
    const millis = Date.parse(text);
    if (!Number.isNaN(millis)) {
      summary.numbers.push(millis);
      summary.isDate = true;
    }
  }
  const known = summary.values.get(text);
  if (known !== undefined || summary.values.size < MOST_VALUES) summary.values.set(text, (known ?? 0) + 1);
}

/** The most frequent values, unless almost every value is another. */
export function frequentValues({ values, count }: FieldSummary, most: number): (readonly [value: string, count: number])[] {
  if (values.size === 0 || (values.size > 1 && values.size > count * 0.8)) return [];
  return [...values].sort((a, b) => b[1] - a[1]).slice(0, most);
}

export interface Bar {
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/** The numbers of a field in `bars` intervals of the same width; none if all are equal. */
export function histogram({ numbers }: FieldSummary, bars: number): Bar[] {
  let [low, high] = [Infinity, -Infinity];
  for (const number of numbers) {
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  if (!(low < high)) return [];
  const width = (high - low) / bars;
  const counts = new Array<number>(bars).fill(0);
  for (const number of numbers) counts[Math.min(bars - 1, Math.floor((number - low) / width))]!++;
  return counts.map((count, index) => ({ from: low + index * width, to: low + (index + 1) * width, count }));
}
