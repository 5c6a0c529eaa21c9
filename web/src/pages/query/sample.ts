// A sample of the documents of a database.

import { all } from '../../api/command.ts';
import { namespace } from '../../api/names.ts';
import type { Node } from '../../json/node.ts';
import { analyse, type FieldSummary } from './analysis.ts';

/** The documents whose fields the editor completes. */
const FOR_COMPLETION = 100;

/** Documents at random, or all if there are not more. */
export function sampleDocuments(db: string, size: number, signal: AbortSignal): Promise<Node[]> {
  const { database, collection } = namespace(db);
  return all(database, [['aggregate', collection], ['pipeline', [{ $sample: { size } }]], ['cursor', { batchSize: size }]], signal);
}

/** The fields that the editor completes. */
export async function sampledFields(db: string, signal: AbortSignal): Promise<FieldSummary[]> {
  return analyse(await sampleDocuments(db, FOR_COMPLETION, signal));
}
