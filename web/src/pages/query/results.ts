// Runs a query. Results come in batches while the server still works.

import { batches, on, type Command } from '../../api/command.ts';
import { path, send } from '../../api/http.ts';
import { namespace } from '../../api/names.ts';
import { array, field, fromPlain, object, string, withField, type Node, type ObjectNode } from '../../json/node.ts';
import { parseJson } from '../../json/parse.ts';
import { compact } from '../../json/print.ts';
import type { Parsed } from './request.ts';

/** The documents of a batch. */
const BATCH = 100;

/** The rows of a temporary view without a limit. */
const VIEW_ROWS = 1000;

/** The command of a filter or a pipeline, as MongoDB's drivers send it. */
export function commandOf(db: string, query: Extract<Parsed, { kind: 'filter' | 'pipeline' }>): [database: string, command: Command] {
  if (query.kind === 'filter') {
    const { filter, projection, sort, skip, limit } = query;
    return on(db, 'find', [['filter', filter], ['projection', projection], ['sort', sort], ['skip', skip], ['limit', limit || undefined]]);
  }
  const { database, collection } = namespace(db);
  return [database, [['aggregate', collection], ['pipeline', array(query.stages)], ['cursor', object([])]]];
}

/** The same with batches of `size`. */
function inBatches(command: Command, size: number): Command {
  return command[0]![0] === 'find' ? [...command, ['batchSize', size]] : command.map((entry) => (entry[0] === 'cursor' ? (['cursor', { batchSize: size }] as const) : entry));
}

/** The results of a query, in the server's order. Breaking the loop frees the cursor; `signal` also ends the command. */
export async function* results(db: string, query: Parsed, signal: AbortSignal): AsyncGenerator<readonly Node[]> {
  switch (query.kind) {
    case 'filter':
    case 'pipeline': {
      const [database, command] = commandOf(db, query);
      yield* batches(database, inBatches(command, BATCH), signal);
      return;
    }
    case 'selector':
      yield* selected(db, query.body, signal);
      return;
    case 'view': {
      const json = fromPlain({ map: query.map, reduce: query.reduce });
      const parameters = query.reduce === undefined ? { reduce: false } : { group: true };
      const response = await send('POST', path(db, '_temp_view'), { query: { ...parameters, limit: query.limit ?? VIEW_ROWS }, json: compact(json), signal });
      yield itemsOf(field(parseJson(await response.text()), 'rows'));
    }
  }
}

/** Pages of `_find`, one after another. */
async function* selected(db: string, body: ObjectNode, signal: AbortSignal): AsyncGenerator<readonly Node[]> {
  const limit = field(body, 'limit');
  let left = limit?.kind === 'number' ? Number(limit.text) : Infinity;
  let page = body;
  while (left > 0) {
    const size = Math.min(left, BATCH);
    const response = await send('POST', path(db, '_find'), { json: compact(withField(page, 'limit', fromPlain(size))), signal });
    const answer = parseJson(await response.text());
    const docs = itemsOf(field(answer, 'docs'));
    yield docs;
    const bookmark = field(answer, 'bookmark');
    if (docs.length < size || bookmark?.kind !== 'string') return;
    left -= docs.length;
    page = withField(withField(body, 'bookmark', string(bookmark.value)), 'skip', fromPlain(0));
  }
}

function itemsOf(node: Node | undefined): readonly Node[] {
  return node?.kind === 'array' ? node.items : [];
}

/** The first documents after the stages up to `count`. Nothing is written: `$out` and `$merge` are left out. */
export async function afterStage(db: string, stages: readonly ObjectNode[], count: number, most: number, signal: AbortSignal): Promise<Node[]> {
  const reading = stages.slice(0, count).filter((stage) => !['$out', '$merge'].includes(stage.entries[0]?.[0] ?? ''));
  const pipeline = array([...reading, object([['$limit', fromPlain(most)]])]);
  const { database, collection } = namespace(db);
  const found: Node[] = [];
  for await (const batch of batches(database, [['aggregate', collection], ['pipeline', pipeline], ['cursor', { batchSize: most }]], signal)) found.push(...batch);
  return found;
}
