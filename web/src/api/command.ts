// MongoDB's commands over HTTP.

import { compact } from '../json/print.ts';
import { field, fromPlain, toPlain, type Node } from '../json/node.ts';
import { parseJson } from '../json/parse.ts';
import { path, send } from './http.ts';
import { namespace } from './names.ts';

/** A command: its name comes first. Values are plain or trees. */
export type Command = readonly (readonly [name: string, value: unknown])[];

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'kind' in value;
}

function written(command: Command): string {
  const fields = command.filter(([, value]) => value !== undefined);
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${compact(isNode(value) ? value : fromPlain(value))}`).join(',')}}`;
}

/** Runs a command and returns its reply as a tree, with exact values: in relaxed Extended JSON, or in canonical. */
export async function command(database: string, fields: Command, signal?: AbortSignal, canonical?: boolean): Promise<Node> {
  const response = await send('POST', path('_diwan', 'command', database), { query: { canonical }, json: written(fields), signal });
  return parseJson(await response.text());
}

/** Runs a command and returns its reply as a plain value. */
export async function plainCommand<T>(database: string, fields: Command, signal?: AbortSignal): Promise<T> {
  return toPlain(await command(database, fields, signal)) as T;
}

/** Runs a command that opens a cursor (`find`, `aggregate`, `listIndexes`) and yields its batches. */
export async function* batches(database: string, fields: Command, signal?: AbortSignal, canonical?: boolean): AsyncGenerator<readonly Node[]> {
  let reply = await command(database, fields, signal, canonical);
  const cursor = () => field(reply, 'cursor');
  const collection = () => {
    const name = field(cursor(), 'ns');
    return name?.kind === 'string' ? name.value.slice(name.value.indexOf('.') + 1) : '';
  };
  const items = (node: Node | undefined) => (node?.kind === 'array' ? node.items : []);
  let id = cursorId(field(cursor(), 'id'));
  try {
    yield items(field(cursor(), 'firstBatch'));
    while (id !== '0') {
      const next = { kind: 'object', entries: [['$numberLong', { kind: 'string', value: id }]] } as Node;
      reply = await command(database, [['getMore', next], ['collection', collection()], ['batchSize', batchSize(fields)]], signal, canonical);
      id = cursorId(field(cursor(), 'id'));
      yield items(field(cursor(), 'nextBatch'));
    }
  } finally {
    if (id !== '0') {
      const open = { kind: 'array', items: [{ kind: 'object', entries: [['$numberLong', { kind: 'string', value: id }]] }] } as Node;
      // A reader that stops early leaves nothing on the server. A failure changes nothing for the reader.
      command(database, [['killCursors', collection()], ['cursors', open]]).catch(() => undefined);
    }
  }
}

/** The size of the first batch, which the others have, too. */
function batchSize(fields: Command): unknown {
  const member = (name: string) => fields.find(([key]) => key === name)?.[1];
  const size = member('batchSize') ?? (member('cursor') as { batchSize?: number } | undefined)?.batchSize;
  return typeof size === 'number' && size > 0 ? size : undefined;
}

function cursorId(node: Node | undefined): string {
  if (node?.kind === 'number') return node.text;
  const long = field(node, '$numberLong');
  return long?.kind === 'string' ? long.value : '0';
}

/** All documents of a command that opens a cursor. */
export async function all(database: string, fields: Command, signal?: AbortSignal): Promise<Node[]> {
  const found: Node[] = [];
  for await (const batch of batches(database, fields, signal)) found.push(...batch);
  return found;
}

/** Runs a command on the collection of a database as HTTP names it: `on(db, 'find', [['filter', …]])`. */
export function on(db: string, name: string, fields: Command = []): [database: string, command: Command] {
  const { database, collection } = namespace(db);
  return [database, [[name, collection], ...fields]];
}
