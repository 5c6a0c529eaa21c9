// One document: reading, checking and saving it.

import { call, documentPath, Failure, path, send } from '../../api/http.ts';
import { boolean, field, object, string, type Entry, type ObjectNode } from '../../json/node.ts';
import { ParseError, parseJson } from '../../json/parse.ts';
import { compact } from '../../json/print.ts';
import type { Problem } from '../../ui/editor.tsx';

/** A revision of a document as the server has it. */
export interface Stored {
  readonly id: string;
  readonly rev: string;
  /** What people edit: everything but the members that the server keeps. */
  readonly body: ObjectNode;
  /** The attachments' descriptions. */
  readonly attachments: ObjectNode | undefined;
  /** Revisions that conflict with this one. */
  readonly conflicts: readonly string[];
  /** The length of the text. */
  readonly length: number;
}

/** The members of a document that are not part of its body. */
const isMember = (name: string) => name.startsWith('_');

function textOf(doc: ObjectNode, name: string): string {
  const value = field(doc, name);
  return value?.kind === 'string' ? value.value : '';
}

/** A document's parts. */
export function storedOf(doc: ObjectNode, length: number): Stored {
  const attachments = field(doc, '_attachments');
  const conflicts = field(doc, '_conflicts');
  return {
    id: textOf(doc, '_id'),
    rev: textOf(doc, '_rev'),
    body: object(doc.entries.filter(([name]) => !isMember(name))),
    attachments: attachments?.kind === 'object' ? attachments : undefined,
    conflicts: conflicts?.kind === 'array' ? conflicts.items.map((item) => (item.kind === 'string' ? item.value : '')) : [],
    length,
  };
}

/** Loads a document, or one revision of it. */
export async function loadDocument(db: string, id: string, signal?: AbortSignal, rev?: string): Promise<Stored> {
  const response = await send('GET', documentPath(db, id), { query: { rev, conflicts: true }, signal });
  const text = await response.text();
  const doc = parseJson(text);
  if (doc.kind !== 'object') throw new Error('The answer is not a document.');
  return storedOf(doc, text.length);
}

/** The revision of a document now; nothing if it does not exist. A document that is gone is no error. */
export async function currentRevision(db: string, id: string, signal?: AbortSignal): Promise<string | undefined> {
  const answer = await call<{ rows: { value?: { rev: string; deleted?: boolean } }[] }>('POST', path(db, '_all_docs'), { json: { keys: [id] }, signal });
  const value = answer.rows[0]?.value;
  return value && !value.deleted ? value.rev : undefined;
}

/** Saves a document and returns its new revision. A [`Failure`] with the status 409 says that somebody else has saved it. */
export async function saveDocument(db: string, id: string, body: ObjectNode, base?: { rev: string; attachments?: ObjectNode | undefined }): Promise<string> {
  const members: Entry[] = [['_id', string(id)]];
  if (base) members.push(['_rev', string(base.rev)]);
  if (base?.attachments) members.push(['_attachments', stubs(base.attachments)]);
  const response = await send('PUT', documentPath(db, id), { json: compact(object([...members, ...body.entries])) });
  return ((await response.json()) as { rev: string }).rev;
}

/** Deletes a revision of a document. */
export async function deleteDocument(db: string, id: string, rev: string): Promise<void> {
  await send('DELETE', documentPath(db, id), { query: { rev } });
}

/** Attachments that stay as they are. */
export function stubs(attachments: ObjectNode): ObjectNode {
  return object(attachments.entries.map(([name, value]): Entry => [name, value.kind === 'object' ? object([...value.entries.filter(([key]) => key !== 'stub' && key !== 'data'), ['stub', boolean(true)]]) : value]));
}

export type Checked = { readonly body: ObjectNode; readonly problems?: undefined } | { readonly body?: undefined; readonly problems: Problem[] };

/** Parses what was typed. `id` and `rev` may stand in the text if they are the document's. */
export function checkBody(text: string, id: string, rev: string | undefined): Checked {
  const problem = (from: number, to: number, message: string): Checked => ({ problems: [{ from, to, message }] });
  try {
    const node = parseJson(text);
    if (node.kind !== 'object') return problem(0, text.length, 'A document is an object: it begins with { and ends with }.');
    for (const [name, value] of node.entries) {
      if (!isMember(name)) continue;
      const at = text.indexOf(JSON.stringify(name));
      const whole = (message: string) => problem(Math.max(0, at), at + name.length + 2, message);
      const own = name === '_id' ? id : name === '_rev' ? rev : undefined;
      if (own === undefined) return whole(`The name “${name}” is the server's. Names that begin with an underscore are written with a dollar: $${name}.`);
      if (value.kind !== 'string' || value.value !== own) return whole(`${name} cannot be changed here. Use “Duplicate” to save the document under another id.`);
    }
    return { body: object(node.entries.filter(([name]) => !isMember(name))) };
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    return problem(error.offset, error.offset + 1, error.message);
  }
}

/** Whether an error says that somebody else has changed the document. */
export function isConflict(error: unknown): boolean {
  return error instanceof Failure && error.status === 409;
}

/** An id that no document has. */
export async function newId(): Promise<string> {
  return (await call<{ uuids: string[] }>('GET', '/_uuids')).uuids[0]!;
}
