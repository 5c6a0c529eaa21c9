// Exports documents in the order of their ids, one batch of a cursor after the other.

import { batches, on } from '../../../api/command.ts';
import { field, string, type Node } from '../../../json/node.ts';
import { idText } from '../../../json/ids.ts';
import { compact } from '../../../json/print.ts';
import type { Report } from '../run.ts';
import { countScope, scopeFilter, type Scope } from '../scope.ts';
import { csvLine } from './csv.ts';
import type { Sink } from './download.ts';

export type ExportForm = 'json' | 'ndjson' | 'csv' | 'extended';

export const forms: Record<ExportForm, { label: string; hint: string; ending: string; type: string }> = {
  json: { label: 'JSON array', hint: 'One array, with relaxed Extended JSON for dates and other types.', ending: 'json', type: 'application/json' },
  ndjson: { label: 'NDJSON', hint: 'One document per line, relaxed Extended JSON, as mongoexport writes it.', ending: 'ndjson', type: 'application/x-ndjson' },
  extended: { label: 'Extended JSON, canonical', hint: 'One document per line; every value keeps its exact type.', ending: 'json', type: 'application/x-ndjson' },
  csv: { label: 'CSV table', hint: 'One line per document, one column per field. Reads the documents twice, because the head comes first.', ending: 'csv', type: 'text/csv' },
};

const BATCH = 1000;

/** Writes the documents of a scope. `result` is told how many are written. */
export async function exportDocuments(db: string, scope: Scope, form: ExportForm, withDesign: boolean, sink: Sink, signal: AbortSignal, report: Report, result: (written: number) => void): Promise<void> {
  try {
    const total = await countScope(db, scope, withDesign, signal);
    const read = () => batches(...on(db, 'find', [['filter', scopeFilter(scope, withDesign)], ['sort', { _id: 1 }], ['batchSize', BATCH]]), signal, form === 'extended');
    let names: string[] = [];
    let seen = 0;
    const passes = form === 'csv' ? 2 : 1;
    if (form === 'csv') {
      const found = new Set<string>();
      for await (const batch of read()) {
        for (const doc of batch) for (const [name] of doc.kind === 'object' ? doc.entries : []) found.add(name);
        report((seen += batch.length), total * passes);
      }
      found.delete('_id');
      names = [...found];
      await sink.write(csvLine(['_id', ...names].map(string)));
    }
    if (form === 'json') await sink.write('[');
    let written = 0;
    for await (const batch of read()) {
      if (batch.length > 0) await sink.write(batchText(batch, form, names, written === 0));
      written += batch.length;
      result(written);
      report(seen + written, Math.max(total * passes, seen + written));
    }
    if (form === 'json') await sink.write('\n]\n');
    await sink.close();
  } catch (error) {
    await sink.abort().catch(() => undefined);
    throw error;
  }
}

function batchText(batch: readonly Node[], form: ExportForm, names: readonly string[], isFirst: boolean): string {
  switch (form) {
    case 'json':
      return (isFirst ? '\n' : ',\n') + batch.map(compact).join(',\n');
    case 'ndjson':
    case 'extended':
      return batch.map((doc) => `${compact(doc)}\n`).join('');
    case 'csv':
      return batch.map((doc) => csvLine([string(idText(field(doc, '_id')!)), ...names.map((name) => field(doc, name))])).join('');
  }
}
