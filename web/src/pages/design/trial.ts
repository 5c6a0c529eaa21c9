// Runs a map function on a few documents.

import { path, send } from '../../api/http.ts';
import { array, field, fromPlain, object, string, type Entry, type Node } from '../../json/node.ts';
import { parseJson } from '../../json/parse.ts';
import { compact } from '../../json/print.ts';
import type { Problem } from '../../ui/editor.tsx';
import { offsetOf } from './functions.ts';

/** What a function made wrong. */
export interface Fault {
  readonly message: string;
  readonly line: number | undefined;
  readonly column: number | undefined;
}

export interface MappedDocument {
  readonly id: string;
  readonly rows: readonly { readonly key: Node; readonly value: Node }[];
  readonly fault: Fault | undefined;
}

export interface Trial {
  readonly documents: readonly MappedDocument[];
  readonly reduced: Node | undefined;
  readonly mapFault: Fault | undefined;
  readonly reduceFault: Fault | undefined;
}

/** Maps the first documents of a database, or one document. */
export async function runTrial(db: string, map: string, reduce: string, scope: { sample: number } | { id: string }, signal: AbortSignal): Promise<Trial> {
  const entries: Entry[] = [['map', string(map)]];
  if (reduce.trim() !== '') entries.push(['reduce', string(reduce)]);
  entries.push('id' in scope ? ['ids', array([string(scope.id)])] : ['sample', fromPlain(scope.sample)]);
  const response = await send('POST', path('_diwan', 'map', db), { json: compact(object(entries)), signal });
  const answer = parseJson(await response.text());
  const error = field(answer, 'error');
  const fault = faultOf(error);
  const place = field(error, 'in');
  const isReduce = place?.kind === 'string' && place.value === 'reduce';
  return {
    documents: items(field(answer, 'documents')).map((document) => ({
      id: text(field(document, 'id')),
      rows: items(field(document, 'rows')).map((row) => ({ key: field(row, 'key')!, value: field(row, 'value')! })),
      fault: faultOf(field(document, 'error')),
    })),
    reduced: field(answer, 'reduced'),
    mapFault: isReduce ? undefined : fault,
    reduceFault: isReduce ? fault : undefined,
  };
}

function items(node: Node | undefined): readonly Node[] {
  return node?.kind === 'array' ? node.items : [];
}

function text(node: Node | undefined): string {
  return node?.kind === 'string' ? node.value : '';
}

function faultOf(node: Node | undefined): Fault | undefined {
  if (node?.kind !== 'object') return undefined;
  const number = (name: string) => {
    const value = field(node, name);
    return value?.kind === 'number' ? Number(value.text) : undefined;
  };
  return { message: text(field(node, 'message')), line: number('line'), column: number('column') };
}

/** What is wrong with the syntax of any function. The server compiles it as a map function, and runs it on nothing. */
export async function findSyntaxFault(db: string, source: string, signal: AbortSignal): Promise<Fault | undefined> {
  const response = await send('POST', path('_diwan', 'map', db), { json: { map: source, ids: [] }, signal });
  return faultOf(field(parseJson(await response.text()), 'error'));
}

/** The places of faults in a source. Equal faults are shown once. */
export function problemsOf(source: string, faults: readonly (Fault | undefined)[]): Problem[] {
  const found = new Map<string, Problem>();
  for (const fault of faults) {
    if (!fault) continue;
    const from = fault.line === undefined ? 0 : offsetOf(source, fault.line, fault.column ?? 1);
    const line = source.indexOf('\n', from);
    found.set(`${from} ${fault.message}`, { from, to: line < 0 ? source.length : line, message: fault.message });
  }
  return [...found.values()];
}
