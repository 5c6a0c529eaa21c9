// What a person types into the query page, as a request.

import type { Node, ObjectNode } from '../../json/node.ts';
import { ParseError, parseJson, parseShell } from '../../json/parse.ts';

export const KINDS = [
  ['filter', 'Filter'],
  ['pipeline', 'Pipeline'],
  ['selector', 'Mango selector'],
  ['view', 'Temporary view'],
] as const;

export type Kind = (typeof KINDS)[number][0];

/** A query as text. All members are texts, so that they fit into the address and into a saved query. */
export interface QueryText {
  readonly kind: Kind;
  /** The filter, the pipeline, the body of `_find`, or the map function. */
  readonly text: string;
  readonly projection: string;
  readonly sort: string;
  readonly skip: string;
  readonly limit: string;
  /** The reduce function of a view; nothing is reduced if it is empty. */
  readonly reduce: string;
}

/** The first text of each kind. */
export const FIRST_TEXTS: Record<Kind, string> = {
  filter: '{}',
  pipeline: '[\n  { $match: {} }\n]',
  selector: '{\n  "selector": {},\n  "limit": 100\n}',
  view: 'function (doc) {\n  emit(doc._id, null);\n}',
};

/** A query without contents. */
export function emptyQuery(kind: Kind): QueryText {
  return { kind, text: FIRST_TEXTS[kind], projection: '', sort: '', skip: '', limit: '', reduce: '' };
}

export type Parsed =
  | { readonly kind: 'filter'; readonly filter: ObjectNode; readonly projection?: ObjectNode; readonly sort?: ObjectNode; readonly skip?: number; readonly limit?: number }
  | { readonly kind: 'pipeline'; readonly stages: readonly ObjectNode[] }
  | { readonly kind: 'selector'; readonly body: ObjectNode }
  | { readonly kind: 'view'; readonly map: string; readonly reduce?: string; readonly limit?: number };

/** What is wrong with a query. `part` is the control that holds it; `offset` its place in the main text. */
export class QueryProblem extends Error {
  readonly part: string;
  readonly offset: number | undefined;

  constructor(part: string, message: string, offset?: number) {
    super(message);
    this.part = part;
    this.offset = offset;
  }
}

/** Parses a query. Throws a [`QueryProblem`]. */
export function parseQuery(query: QueryText): Parsed {
  switch (query.kind) {
    case 'filter':
      return {
        kind: 'filter',
        filter: parseObject('filter', query.text) ?? { kind: 'object', entries: [] },
        projection: parseObject('projection', query.projection),
        sort: parseObject('sort', query.sort),
        skip: parseCount('skip', query.skip),
        limit: parseCount('limit', query.limit),
      };
    case 'pipeline': {
      const node = parse('pipeline', query.text, parseShell);
      if (node?.kind !== 'array') throw new QueryProblem('pipeline', 'A pipeline is an array of stages: [ { $match: { … } } ].');
      const stages = node.items.map((stage, index) => {
        if (stage.kind === 'object' && stage.entries.length === 1) return stage;
        throw new QueryProblem('pipeline', `Stage ${index + 1} must be an object with one field, the name of the stage.`);
      });
      return { kind: 'pipeline', stages };
    }
    case 'selector': {
      const body = parse('selector', query.text, parseJson);
      if (body?.kind !== 'object') throw new QueryProblem('selector', 'A query is an object with a member "selector".');
      return { kind: 'selector', body };
    }
    case 'view': {
      if (query.text.trim() === '') throw new QueryProblem('view', 'A view needs a map function.');
      return { kind: 'view', map: query.text, reduce: query.reduce.trim() || undefined, limit: parseCount('limit', query.limit) };
    }
  }
}

function parse(part: string, text: string, parser: (text: string) => Node): Node | undefined {
  if (text.trim() === '') return undefined;
  try {
    return parser(text);
  } catch (error) {
    if (error instanceof ParseError) throw new QueryProblem(part, error.message, error.offset);
    throw error;
  }
}

function parseObject(part: string, text: string): ObjectNode | undefined {
  const node = parse(part, text, parseShell);
  if (node === undefined || node.kind === 'object') return node;
  throw new QueryProblem(part, `The ${part} is an object: { field: … }.`);
}

function parseCount(part: string, text: string): number | undefined {
  if (text.trim() === '') return undefined;
  const count = Number(text);
  if (!Number.isInteger(count) || count < 0) throw new QueryProblem(part, `The ${part} is a whole number.`);
  return count;
}
