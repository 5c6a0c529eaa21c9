// Plans of queries as trees of stages, from the answers of `explain` and of `_explain`.

import { at, field, toPlain, type Node } from '../../json/node.ts';
import { brief, compact } from '../../json/print.ts';

/** A stage of a plan with what it reads from. */
export interface PlanStage {
  readonly name: string;
  /** What the stage is about: its index, filter or order, as `name: value`. */
  readonly details: readonly (readonly [name: string, value: string])[];
  readonly index?: string;
  readonly returned?: number;
  readonly keysExamined?: number;
  readonly docsExamined?: number;
  readonly inputs: readonly PlanStage[];
}

export interface Plan {
  /** The last stage: its inputs come before. */
  readonly root: PlanStage;
  readonly returned?: number;
  readonly keysExamined?: number;
  readonly docsExamined?: number;
  readonly millis?: number;
  /** The whole answer. */
  readonly answer: Node;
}

/** The members of a stage that are shown as details, with their labels. */
const DETAILS: readonly (readonly [member: string, label: string])[] = [
  ['indexName', 'index'],
  ['keyPattern', 'keys'],
  ['indexBounds', 'bounds'],
  ['filter', 'filter'],
  ['sortPattern', 'order'],
  ['limitAmount', 'limit'],
  ['skipAmount', 'skip'],
  ['transformBy', 'fields'],
  ['direction', 'direction'],
];

const DETAIL_LENGTH = 300;

function numberOf(node: Node | undefined): number | undefined {
  return node?.kind === 'number' ? Number(node.text) : undefined;
}

function textOf(node: Node | undefined): string | undefined {
  return node?.kind === 'string' ? node.value : undefined;
}

function stage(node: Node): PlanStage {
  const input = field(node, 'inputStage');
  const several = field(node, 'inputStages');
  const inputs = [...(input ? [input] : []), ...(several?.kind === 'array' ? several.items : [])];
  const details: (readonly [string, string])[] = [];
  for (const [member, label] of DETAILS) {
    const value = field(node, member);
    const isPlain = value === undefined || (member === 'direction' && textOf(value) === 'forward') || (value.kind === 'object' && value.entries.length === 0);
    if (!isPlain) details.push([label, brief(value, DETAIL_LENGTH)]);
  }
  return {
    name: textOf(field(node, 'stage')) ?? 'stage',
    details,
    index: textOf(field(node, 'indexName')),
    returned: numberOf(field(node, 'nReturned')),
    keysExamined: numberOf(field(node, 'keysExamined')),
    docsExamined: numberOf(field(node, 'docsExamined')),
    inputs: inputs.map(stage),
  };
}

/** The plan in an answer of the command `explain`. */
export function planOfExplain(answer: Node): Plan | undefined {
  const stages = field(answer, 'stages');
  const cursor = stages?.kind === 'array' ? (field(stages.items[0], '$cursor') ?? answer) : answer;
  const stats = field(cursor, 'executionStats');
  const winning = field(stats, 'executionStages') ?? at(cursor, 'queryPlanner.winningPlan');
  let root = winning ? stage(winning) : undefined;
  if (stages?.kind === 'array') {
    for (const node of stages.items) {
      const [name, value] = node.kind === 'object' ? (node.entries[0] ?? ['', undefined]) : ['', undefined];
      if (name === '$cursor' || value === undefined) continue;
      const text = compact(value).length > DETAIL_LENGTH ? brief(value, DETAIL_LENGTH) : compact(value);
      root = { name, details: [['', text]], returned: numberOf(field(node, 'nReturned')), inputs: root ? [root] : [] };
    }
  }
  if (!root) return undefined;
  return {
    root,
    returned: stages ? undefined : numberOf(field(stats, 'nReturned')),
    keysExamined: numberOf(field(stats, 'totalKeysExamined')),
    docsExamined: numberOf(field(stats, 'totalDocsExamined')),
    millis: numberOf(field(stats, 'executionTimeMillis')),
    answer,
  };
}

/** The plan of a Mango query: the answer of `_explain`, and the statistics of the same query in `_find`. */
export function planOfSelector(explained: Node, found: Node | undefined): Plan | undefined {
  const winning = field(explained, 'winning_plan');
  if (!winning) return undefined;
  const stats = field(found, 'execution_stats');
  return {
    root: stage(winning),
    returned: numberOf(field(stats, 'results_returned')),
    keysExamined: numberOf(field(stats, 'total_keys_examined')),
    docsExamined: numberOf(field(stats, 'total_docs_examined')),
    millis: numberOf(field(stats, 'execution_time_ms')),
    answer: explained,
  };
}

/** All stages, the first to run first. */
export function stagesOf(root: PlanStage): PlanStage[] {
  return [...root.inputs.flatMap(stagesOf), root];
}

/** The fields of an order such as `{ a: 1, b: -1 }`. */
export function orderOf(node: Node | undefined): (readonly [string, 1 | -1])[] {
  if (node?.kind !== 'object') return [];
  return node.entries.flatMap(([name, value]) => {
    const direction = toPlain(value);
    return direction === 1 || direction === -1 ? [[name, direction] as const] : [];
  });
}
