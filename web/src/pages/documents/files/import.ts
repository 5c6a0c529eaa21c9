// Imports documents from a file, which is read as it is sent on.

import { call, Failure, path, send } from '../../../api/http.ts';
import { field, object, string, type Entry, type ObjectNode } from '../../../json/node.ts';
import { idText } from '../../../json/ids.ts';
import { parseJson } from '../../../json/parse.ts';
import { compact } from '../../../json/print.ts';
import type { Report } from '../run.ts';
import { CsvReader, documentOf } from './csv.ts';
import { JsonSplitter } from './json-splitter.ts';

export type FileForm = 'json' | 'csv';

/** What becomes of a document whose id exists. */
export type Existing = 'skip' | 'replace' | 'refuse';

/** A document that was not imported. */
export interface Refused {
  readonly line: number;
  readonly id: string;
  readonly reason: string;
}

export interface Imported {
  readonly stored: number;
  readonly skipped: number;
  readonly refused: number;
  /** The first refused documents. */
  readonly report: readonly Refused[];
}

interface Item {
  readonly line: number;
  /** The text of the id; nothing if the server makes one. */
  readonly id: string | undefined;
  readonly doc: ObjectNode;
  readonly text: string;
}

/** Documents and characters of one request. */
const BATCH_DOCUMENTS = 500;
const BATCH_CHARACTERS = 2_000_000;

const MOST_REPORTED = 1000;

export interface ImportOptions {
  readonly form: FileForm;
  readonly existing: Existing;
  /** Whether the types of a table's cells are guessed. */
  readonly withTypes: boolean;
}

/** The form of a file by its name. */
export function formOf(name: string): FileForm {
  return /\.(csv|tsv|txt)$/i.test(name) ? 'csv' : 'json';
}

/**
 * A document as it is stored over HTTP. An id of Extended JSON becomes its text, and names of fields that begin with an
 * underscore get a dollar. A document with `_rev` comes from HTTP and has both already.
 */
export function storable(doc: ObjectNode): { id: string | undefined; doc: ObjectNode } {
  const rev = field(doc, '_rev');
  const isFromHttp = rev?.kind === 'string';
  const given = field(doc, '_id');
  const id = given && (isFromHttp && given.kind === 'string' ? given.value : idText(given));
  const body = doc.entries.flatMap(([name, value]): Entry[] => {
    if (name === '_id') return [];
    if (!name.startsWith('_')) return [[name, value]];
    return isFromHttp ? [] : [[`$${name}`, value]];
  });
  return { id, doc: object([...(id === undefined ? [] : [['_id', string(id)] as const]), ...body]) };
}

/** Imports a file. `result` is told after each request. */
export async function importFile(db: string, file: Blob, options: ImportOptions, signal: AbortSignal, report: Report, result: (imported: Imported) => void): Promise<void> {
  const batch = new Batch(db, options.existing, signal, result);
  const parse = options.form === 'csv' ? tableParser(options.withTypes) : documentParser();
  let read = 0;
  const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      read += chunk.length;
      controller.enqueue(chunk);
    },
  });
  const reader = file.stream().pipeThrough(counted).pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (signal.aborted) return;
      for (const found of done ? parse.end() : parse.push(value)) {
        if ('reason' in found) batch.refuse(found);
        else await batch.add(found);
        if (signal.aborted) return;
      }
      report(read, file.size);
      if (done) break;
    }
    await batch.flush();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

interface Parser {
  push: (part: string) => Iterable<Item | Refused>;
  end: () => Iterable<Item | Refused>;
}

function item(doc: ObjectNode, line: number): Item {
  const stored = storable(doc);
  return { line, id: stored.id, doc: stored.doc, text: compact(stored.doc) };
}

function documentParser(): Parser {
  const splitter = new JsonSplitter();
  function* read(pieces: ReturnType<JsonSplitter['push']>): Iterable<Item | Refused> {
    for (const { text, line, problem } of pieces) {
      if (problem !== undefined) {
        yield { line, id: text.slice(0, 80), reason: problem };
        continue;
      }
      try {
        const doc = parseJson(text);
        yield doc.kind === 'object' ? item(doc, line) : { line, id: '', reason: 'A document is an object.' };
      } catch (error) {
        yield { line, id: text.slice(0, 80), reason: (error as Error).message };
      }
    }
  }
  return { push: (part) => read(splitter.push(part)), end: () => read(splitter.end()) };
}

function tableParser(withTypes: boolean): Parser {
  const reader = new CsvReader();
  let header: readonly string[] | undefined;
  function* read(records: ReturnType<CsvReader['push']>): Iterable<Item | Refused> {
    for (const { cells, line } of records) {
      if (!header) {
        header = cells.map((name) => name.trim());
        continue;
      }
      if (cells.length > header.length) yield { line, id: cells[0] ?? '', reason: `The line has ${cells.length} cells, but the head has ${header.length}.` };
      else {
        const doc = documentOf(header, cells, withTypes);
        const given = field(doc, '_id');
        // A cell holds the text of an id, as an address does.
        const id = given?.kind === 'string' ? given.value : undefined;
        const stored = storable(object(doc.entries.filter(([name]) => name !== '_id' && name !== '_rev'))).doc;
        const whole = id === undefined ? stored : object([['_id', string(id)], ...stored.entries]);
        yield { line, id, doc: whole, text: compact(whole) };
      }
    }
  }
  return {
    push: (part) => read(reader.push(part)),
    *end() {
      const isOpen = reader.isOpen;
      yield* isOpen ? [{ line: 0, id: '', reason: 'A quotation mark is not closed: the last record is left out.' }] : read(reader.end());
    },
  };
}

interface Answer {
  readonly ok?: boolean;
  readonly error?: string;
  readonly reason?: string;
}

/** Collects documents and sends them in requests of a bounded size. */
class Batch {
  private items: Item[] = [];
  private characters = 0;
  private imported: Imported = { stored: 0, skipped: 0, refused: 0, report: [] };
  private readonly db: string;
  private readonly existing: Existing;
  private readonly signal: AbortSignal;
  private readonly result: (imported: Imported) => void;

  constructor(db: string, existing: Existing, signal: AbortSignal, result: (imported: Imported) => void) {
    this.db = db;
    this.existing = existing;
    this.signal = signal;
    this.result = result;
    result(this.imported);
  }

  refuse(refused: Refused): void {
    const { report } = this.imported;
    this.imported = { ...this.imported, refused: this.imported.refused + 1, report: report.length < MOST_REPORTED ? [...report, refused] : report };
    this.result(this.imported);
  }

  async add(item: Item): Promise<void> {
    this.items.push(item);
    this.characters += item.text.length;
    if (this.items.length >= BATCH_DOCUMENTS || this.characters >= BATCH_CHARACTERS) await this.flush();
  }

  async flush(): Promise<void> {
    const items = this.items;
    this.items = [];
    this.characters = 0;
    if (items.length > 0) await this.store(items);
  }

  private async store(items: readonly Item[]): Promise<void> {
    const revisions = this.existing === 'replace' ? await this.revisions(items) : new Map<string, string>();
    const docs = items.map(({ id, doc, text }) => {
      const rev = id === undefined ? undefined : revisions.get(id);
      return rev === undefined ? text : compact(object([...doc.entries, ['_rev', string(rev)]]));
    });
    let answers: Answer[];
    try {
      const response = await send('POST', path(this.db, '_bulk_docs'), { json: `{"docs":[${docs.join(',')}]}`, signal: this.signal });
      answers = (await response.json()) as Answer[];
    } catch (error) {
      if (!(error instanceof Failure) || ![400, 413].includes(error.status)) throw error;
      // One document spoils the request: halves are sent until it stands alone.
      if (items.length === 1) {
        this.refuse({ line: items[0]!.line, id: items[0]!.id ?? '', reason: error.message });
        return;
      }
      const half = Math.ceil(items.length / 2);
      await this.store(items.slice(0, half));
      await this.store(items.slice(half));
      return;
    }
    items.forEach((item, index) => this.count(item, answers[index] ?? { error: 'no answer' }));
    this.result(this.imported);
  }

  private count(item: Item, answer: Answer): void {
    if (answer.ok) this.imported = { ...this.imported, stored: this.imported.stored + 1 };
    else if (answer.error === 'conflict' && this.existing === 'skip') this.imported = { ...this.imported, skipped: this.imported.skipped + 1 };
    else {
      const reason = answer.error === 'conflict' ? 'A document with this id exists.' : (answer.reason ?? answer.error ?? 'The server refused it.');
      this.refuse({ line: item.line, id: item.id ?? '', reason });
    }
  }

  /** The revisions of the documents that exist. */
  private async revisions(items: readonly Item[]): Promise<Map<string, string>> {
    const keys = [...new Set(items.flatMap(({ id }) => (id === undefined ? [] : [id])))];
    const answer = await call<{ rows: { key: string; value?: { rev: string; deleted?: boolean } }[] }>('POST', path(this.db, '_all_docs'), { json: { keys }, signal: this.signal });
    return new Map(answer.rows.flatMap(({ key, value }) => (value && !value.deleted ? [[key, value.rev] as const] : [])));
  }
}
