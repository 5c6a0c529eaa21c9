// Asks the server how it runs a query.

import { command } from '../../api/command.ts';
import { path, send } from '../../api/http.ts';
import { fromPlain, object, withField, type Entry, type Node } from '../../json/node.ts';
import { parseJson } from '../../json/parse.ts';
import { compact } from '../../json/print.ts';
import { planOfExplain, planOfSelector, type Plan } from './plan.ts';
import type { Parsed } from './request.ts';
import { commandOf } from './results.ts';

/** The plan of a query with the figures of one run. Temporary views have none: they read all documents. */
export async function explain(db: string, query: Parsed, signal: AbortSignal): Promise<Plan | undefined> {
  switch (query.kind) {
    case 'filter':
    case 'pipeline': {
      const [database, fields] = commandOf(db, query);
      const entries = fields.filter(([, value]) => value !== undefined).map(([name, value]): Entry => [name, asNode(value)]);
      return planOfExplain(await command(database, [['explain', object(entries)], ['verbosity', 'executionStats']], signal));
    }
    case 'selector': {
      const body = compact(query.body);
      const withStats = compact(withField(query.body, 'execution_stats', fromPlain(true)));
      const explained = await send('POST', path(db, '_explain'), { json: body, signal });
      const found = await send('POST', path(db, '_find'), { json: withStats, signal });
      return planOfSelector(parseJson(await explained.text()), parseJson(await found.text()));
    }
    case 'view':
      return undefined;
  }
}

function asNode(value: unknown): Node {
  return typeof value === 'object' && value !== null && 'kind' in value ? (value as Node) : fromPlain(value);
}
