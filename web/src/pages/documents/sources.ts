// Where the rows of a list come from: all documents, those whose id begins with a text, or those that match a filter.

import { all, on, plainCommand } from '../../api/command.ts';
import { call, path, send } from '../../api/http.ts';
import { field, type Node, type ObjectNode } from '../../json/node.ts';
import { idNode, idText } from '../../json/ids.ts';
import { parseJson } from '../../json/parse.ts';
import type { DocumentRow, Position, Source } from './rows.ts';

/** Documents whose text is longer are listed without their contents. */
const LONGEST_LISTED = 200_000;

/** The ids between these are design documents. */
const DESIGN: readonly [string, string] = ['_design/', '_design0'];

/** Sorts after every text that begins like the text before it. */
const LAST = '\u{10ffff}';

/** The names that an answer adds to a document. */
interface Members {
  readonly keys?: readonly string[];
  readonly start_key?: string;
  readonly end_key?: string;
  readonly inclusive_end?: boolean;
  readonly descending?: boolean;
  readonly skip?: number;
  readonly limit?: number;
}

/** Rows of `_all_docs`, in the order of the answer. */
async function list(db: string, members: Members, signal: AbortSignal): Promise<DocumentRow[]> {
  const response = await send('POST', path(db, '_all_docs'), { json: { ...members, include_docs: true, conflicts: true }, signal });
  // Each row has a line, so that a long document is measured without being parsed.
  const rows: DocumentRow[] = [];
  for (const line of (await response.text()).split('\n')) {
    if (!line.startsWith('{"id":')) continue;
    const text = line.trimEnd().replace(/,$/, '');
    const row = text.length > LONGEST_LISTED ? headOf(text) : rowOf(parseJson(text), text.length);
    if (row) rows.push(row);
  }
  return rows;
}

function rowOf(row: Node, length: number): DocumentRow | undefined {
  const [id, doc] = [field(row, 'id'), field(row, 'doc')];
  if (id?.kind !== 'string' || doc?.kind !== 'object') return undefined;
  const rev = field(doc, '_rev');
  return { id: id.value, rev: rev?.kind === 'string' ? rev.value : undefined, doc, length };
}

/** The row of a long document: its members before the contents. */
function headOf(text: string): DocumentRow | undefined {
  const end = text.indexOf(',"doc":');
  const row = end < 0 ? undefined : parseJson(`${text.slice(0, end)}}`);
  const [id, rev] = [field(row, 'id'), field(field(row, 'value'), 'rev')];
  if (id?.kind !== 'string') return undefined;
  return { id: id.value, rev: rev?.kind === 'string' ? rev.value : undefined, doc: undefined, length: text.length };
}

/** All documents in the order of their ids, with or without design documents. */
export function allDocuments(db: string, withDesign: boolean): Source {
  /** The rows before the design documents; all rows if there are none or they are shown. */
  let before = Infinity;
  let total = 0;

  async function count(signal: AbortSignal): Promise<number> {
    const [designs, first] = await Promise.all([
      call<{ total_rows: number; rows: unknown[] }>('GET', path(db, '_design_docs'), { signal }),
      call<{ total_rows: number; offset: number | null }>('POST', path(db, '_all_docs'), { json: { start_key: DESIGN[0], limit: 0 }, signal }),
    ]);
    const hidden = withDesign ? 0 : designs.rows.length;
    total = first.total_rows - hidden;
    before = hidden === 0 ? Infinity : (first.offset ?? (await countBelow(db, DESIGN[0], signal)));
    return total;
  }

  /** Rows before or after the design documents. */
  function part(isFirst: boolean, members: Members, limit: number, signal: AbortSignal): Promise<DocumentRow[]> {
    if (before === Infinity) return list(db, { ...members, limit }, signal);
    const [low, high] = isFirst ? [undefined, DESIGN[0]] : [DESIGN[1], undefined];
    const bounds = members.descending ? { start_key: high, end_key: low } : { start_key: low, end_key: high };
    return list(db, { ...bounds, ...members, limit }, signal);
  }

  async function read(position: Position, limit: number, signal: AbortSignal): Promise<DocumentRow[]> {
    switch (position.kind) {
      case 'start': {
        const inFirst = Math.max(0, Math.min(limit, before - position.skip));
        const rows = inFirst > 0 ? await part(true, { skip: position.skip }, inFirst, signal) : [];
        if (rows.length === limit || before === Infinity) return rows;
        return [...rows, ...(await part(false, { skip: Math.max(0, position.skip - before) }, limit - rows.length, signal))];
      }
      case 'end': {
        const after = before === Infinity ? Infinity : total - before;
        const inLast = Math.max(0, Math.min(limit, after - position.skip));
        const rows = inLast > 0 ? await part(false, { skip: position.skip, descending: true }, inLast, signal) : [];
        if (rows.length < limit && before !== Infinity) {
          rows.push(...(await part(true, { skip: Math.max(0, position.skip - after), descending: true }, limit - rows.length, signal)));
        }
        return rows.reverse();
      }
      case 'at':
      case 'after':
        return onwards(position.id, position.kind === 'after' ? 1 : 0, limit, signal);
      case 'before': {
        const isFirst = sortText(position.id) < DESIGN[0];
        const rows = await part(isFirst, { start_key: position.id, skip: 1, descending: true }, limit, signal);
        if (rows.length < limit && !isFirst && before !== Infinity) rows.push(...(await part(true, { descending: true }, limit - rows.length, signal)));
        return rows.reverse();
      }
    }
  }

  async function onwards(id: string, skip: number, limit: number, signal: AbortSignal): Promise<DocumentRow[]> {
    const isFirst = sortText(id) < DESIGN[0];
    const rows = await part(isFirst, { start_key: id, skip }, limit, signal);
    if (rows.length < limit && isFirst && before !== Infinity) rows.push(...(await part(false, {}, limit - rows.length, signal)));
    return rows;
  }

  return { count, read, isOrdered: true };
}

/** The text by which a list sorts an id. */
function sortText(id: string): string {
  const value = idNode(id);
  return value.kind === 'string' ? value.value : id;
}

/** The number of documents whose id sorts before `text`. The list itself counts a few ten thousand only. */
async function countBelow(db: string, text: string, signal: AbortSignal): Promise<number> {
  // ObjectIds sort by their digits, and those that begin with a letter sort after an underscore.
  const below = { $or: [{ _id: { $lt: text } }, { _id: { $lt: { $oid: `a${'0'.repeat(23)}` } } }] };
  const reply = await plainCommand<{ n: number }>(...on(db, 'count', [['query', below]]), signal);
  return reply.n;
}

/** Documents whose id is `text` or begins with it. */
export function idsBeginningWith(db: string, text: string): Source {
  // The texts of ids that are not strings sort by their values.
  const isWhole = text.startsWith('~');
  return {
    count: async () => undefined,
    read: (position, limit, signal) => {
      const members: Members = isWhole ? { keys: [text] } : { start_key: text, end_key: text + LAST, skip: position.kind === 'start' ? position.skip : 0, limit };
      return list(db, members, signal);
    },
    isOrdered: false,
  };
}

/** Documents that match a filter of MongoDB, in the order of their ids. */
export function matching(db: string, filter: ObjectNode): Source {
  return {
    count: async (signal) => (await plainCommand<{ n: number }>(...on(db, 'count', [['query', filter]]), signal)).n,
    read: async (position, limit, signal) => {
      const skip = position.kind === 'start' ? position.skip : 0;
      const found = await all(...on(db, 'find', [['filter', filter], ['projection', { _id: 1 }], ['sort', { _id: 1 }], ['skip', skip], ['limit', limit], ['batchSize', limit]]), signal);
      const keys = found.map((doc) => idText(field(doc, '_id')!));
      return keys.length === 0 ? [] : list(db, { keys }, signal);
    },
    isOrdered: false,
  };
}
