// Proposes an index for a query that reads much more than it returns.

import { field, type Node } from '../../json/node.ts';
import { typeName } from '../../json/print.ts';
import { orderOf, stagesOf, type Plan } from './plan.ts';
import type { Parsed } from './request.ts';

export type IndexKeys = readonly (readonly [field: string, direction: 1 | -1])[];

/** A plan is worth an index if it examines this many documents for each one that it returns. */
const MUCH = 10;

/** Fewer documents are read faster than anybody notices. */
const FEW = 100;

const RANGES = ['$gt', '$gte', '$lt', '$lte', '$in', '$regex', '$exists', '$type', '$mod', '$all', '$elemMatch', '$size'];

/** The keys of an index that would help, or nothing. */
export function proposeIndex(query: Parsed, plan: Plan): IndexKeys | undefined {
  const { docsExamined } = plan;
  if (docsExamined === undefined || docsExamined < FEW) return undefined;
  const returned = scanReturned(plan) ?? plan.returned ?? 0;
  if (docsExamined < MUCH * Math.max(1, returned)) return undefined;
  const { condition, order } = whatIsAsked(query);
  const { equal, ranges } = fieldsOf(condition);
  const keys: (readonly [string, 1 | -1])[] = equal.map((name) => [name, 1] as const);
  // Equality first, then the order, then ranges: so the index gives the order, and reads no key in vain.
  for (const [name, direction] of order) if (!keys.some(([key]) => key === name)) keys.push([name, direction]);
  for (const name of ranges) if (!keys.some(([key]) => key === name)) keys.push([name, 1]);
  const useful = equal.length + ranges.length > 0 && keys[0]![0] !== '_id';
  return useful ? keys : undefined;
}

/** What the stages that read the collection return: a group after them returns fewer. */
function scanReturned({ root }: Plan): number | undefined {
  const reading = stagesOf(root).filter(({ name }) => ['COLLSCAN', 'FETCH', 'IXSCAN'].includes(name));
  return reading.at(-1)?.returned;
}

function whatIsAsked(query: Parsed): { condition: Node | undefined; order: IndexKeys } {
  switch (query.kind) {
    case 'filter':
      return { condition: query.filter, order: orderOf(query.sort) };
    case 'pipeline': {
      const [first, second] = query.stages;
      const condition = field(first, '$match');
      return { condition, order: orderOf(field(condition ? second : first, '$sort')) };
    }
    case 'selector': {
      const sort = field(query.body, 'sort');
      const order = sort?.kind === 'array' ? sort.items.flatMap(mangoOrder) : [];
      return { condition: field(query.body, 'selector'), order };
    }
    case 'view':
      return { condition: undefined, order: [] };
  }
}

function mangoOrder(item: Node): IndexKeys {
  if (item.kind === 'string') return [[item.value, 1]];
  if (item.kind !== 'object') return [];
  return item.entries.map(([name, value]) => [name, value.kind === 'string' && value.value === 'desc' ? -1 : 1] as const);
}

/** The fields that must be equal to a value, and those that must lie in a range. Those in `$or` and negations are left out. */
function fieldsOf(condition: Node | undefined, prefix = ''): { equal: string[]; ranges: string[] } {
  const equal: string[] = [];
  const ranges: string[] = [];
  if (condition?.kind !== 'object') return { equal, ranges };
  for (const [name, value] of condition.entries) {
    if (name === '$and' && value.kind === 'array') {
      for (const part of value.items) {
        const inner = fieldsOf(part, prefix);
        equal.push(...inner.equal);
        ranges.push(...inner.ranges);
      }
    }
    if (name.startsWith('$')) continue;
    const path = prefix + name;
    const operators = value.kind === 'object' && typeName(value) === 'object' ? value.entries.map(([operator]) => operator) : [];
    if (!operators.some((operator) => operator.startsWith('$'))) equal.push(path);
    else if (operators.includes('$eq')) equal.push(path);
    else if (operators.some((operator) => RANGES.includes(operator))) ranges.push(path);
  }
  return { equal: [...new Set(equal)], ranges: [...new Set(ranges)] };
}

/** The index as people write it. */
export function shownKeys(keys: IndexKeys): string {
  return `{ ${keys.map(([name, direction]) => `${/^[A-Za-z_][\w.]*$/.test(name) && !name.includes('.') ? name : JSON.stringify(name)}: ${direction}`).join(', ')} }`;
}

/** MongoDB's name for an index with these keys. */
export function indexName(keys: IndexKeys): string {
  return keys.map(([name, direction]) => `${name}_${direction}`).join('_');
}
