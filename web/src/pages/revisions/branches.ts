// Reads and resolves the branches of a document.

import { documentPath, send } from '../../api/http.ts';
import { field, type Node } from '../../json/node.ts';
import { parseJson } from '../../json/parse.ts';
import { storedOf, type Stored } from '../documents/stored.ts';
import type { Branch } from './tree.ts';

/** All branches of a document. A document that does not exist has none. */
export async function loadBranches(db: string, id: string, signal: AbortSignal): Promise<Branch[]> {
  const response = await send('GET', documentPath(db, id), { query: { open_revs: 'all', revs: true }, signal });
  const answer = parseJson(await response.text());
  return answer.kind === 'array' ? answer.items.flatMap((item) => branchOf(field(item, 'ok'))) : [];
}

function branchOf(doc: Node | undefined): Branch[] {
  const [rev, deleted, revisions] = [field(doc, '_rev'), field(doc, '_deleted'), field(doc, '_revisions')];
  const [start, ids] = [field(revisions, 'start'), field(revisions, 'ids')];
  if (rev?.kind !== 'string') return [];
  const path = start?.kind === 'number' && ids?.kind === 'array' ? ids.items.map((digits, index) => `${Number(start.text) - index}-${digits.kind === 'string' ? digits.value : ''}`) : [rev.value];
  return [{ rev: rev.value, deleted: deleted?.kind === 'boolean' && deleted.value, path }];
}

/** A revision, or nothing if a compaction has removed its contents. */
export async function loadRevision(db: string, id: string, rev: string, signal: AbortSignal): Promise<Stored | undefined> {
  const response = await send('GET', documentPath(db, id), { query: { open_revs: JSON.stringify([rev]) }, signal });
  const text = await response.text();
  const answer = parseJson(text);
  const doc = answer.kind === 'array' ? field(answer.items[0], 'ok') : undefined;
  return doc?.kind === 'object' ? storedOf(doc, text.length) : undefined;
}
