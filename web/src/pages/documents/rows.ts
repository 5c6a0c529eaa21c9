// The rows of a long list, of which only the pages near the reader are kept.

import type { ObjectNode } from '../../json/node.ts';

/** A row of the list. */
export interface DocumentRow {
  readonly id: string;
  readonly rev: string | undefined;
  /** The document, unless it is too long for a list. */
  readonly doc: ObjectNode | undefined;
  /** The length of its text. */
  readonly length: number;
}

/** Where a page of rows begins: a number of rows from one end, or a row that is known. */
export type Position =
  | { readonly kind: 'start' | 'end'; readonly skip: number }
  | { readonly kind: 'at' | 'after' | 'before'; readonly id: string };

/** Reads rows. Rows that are read backwards are returned in the order of the list. */
export interface Source {
  /** The number of rows; nothing if it is not known before the end is read. */
  count: (signal: AbortSignal) => Promise<number | undefined>;
  read: (position: Position, limit: number, signal: AbortSignal) => Promise<DocumentRow[]>;
  /** Whether rows can be read from a known row on, which is faster than counting from an end. */
  readonly isOrdered: boolean;
}

/** The characters of documents that are kept. */
const MOST_KEPT = 12_000_000;

/** Pages that are kept in any case. */
const LEAST_PAGES = 4;

/** Pages that are loaded at the same time. */
const AT_ONCE = 2;

interface Page {
  readonly rows: readonly DocumentRow[];
  readonly length: number;
}

/** Loads the pages that are in sight. `changed` is called after each change. */
export class PagedRows {
  /** The number of rows as far as it is known. */
  count = 0;
  /** Whether `count` is the number of all rows. */
  isCounted = false;
  /** Whether the first answer has arrived. */
  isReady = false;
  error: unknown;
  private readonly pages = new Map<number, Page>();
  private readonly loading = new Map<number, AbortController>();
  /** Pages that are shown although they must be read again, and the id at which each begins. */
  private readonly stale = new Map<number, string>();
  private wanted: number[] = [];
  private readonly source: Source;
  private readonly size: number;
  private readonly changed: () => void;
  private readonly counting = new AbortController();

  constructor(source: Source, size: number, changed: () => void) {
    this.source = source;
    this.size = size;
    this.changed = changed;
  }

  /** Counts the rows and loads the first ones. */
  start(): void {
    this.recount().catch(this.failed);
  }

  /** Ends all requests. */
  stop(): void {
    this.counting.abort();
    for (const aborter of this.loading.values()) aborter.abort();
    this.loading.clear();
    this.wanted = [];
  }

  row(index: number): DocumentRow | undefined {
    return this.pages.get(Math.floor(index / this.size))?.rows[index % this.size];
  }

  /** All rows that are loaded. */
  loaded(): DocumentRow[] {
    return [...this.pages.values()].flatMap(({ rows }) => rows);
  }

  /** Loads the rows that are in sight. Requests for others are ended. */
  show(first: number, end: number): void {
    const from = Math.floor(first / this.size);
    const to = Math.floor(Math.max(first, end - 1) / this.size);
    this.wanted = Array.from({ length: to - from + 1 }, (_, step) => from + step);
    for (const [page, aborter] of this.loading) {
      if (this.wanted.includes(page)) continue;
      aborter.abort();
      this.loading.delete(page);
    }
    this.next();
  }

  /** Reads the rows in sight again after a change of the database. The row at the top of the page stays where it is. */
  async refresh(): Promise<void> {
    for (const aborter of this.loading.values()) aborter.abort();
    this.loading.clear();
    this.stale.clear();
    for (const [number, page] of [...this.pages]) {
      const first = page.rows[0];
      if (this.wanted.includes(number) && first) this.stale.set(number, first.id);
      else this.pages.delete(number);
    }
    this.error = undefined;
    await this.recount();
  }

  /** Tries again after a failure. */
  retry(): void {
    this.error = undefined;
    this.start();
  }

  private async recount(): Promise<void> {
    const count = await this.source.count(this.counting.signal);
    this.isCounted = count !== undefined;
    if (count !== undefined) {
      this.count = count;
      this.isReady = count === 0 || this.isReady;
      for (const number of this.pages.keys()) if (number * this.size >= count) this.pages.delete(number);
    } else if (this.count === 0) this.count = this.size;
    if (this.wanted.length === 0) this.wanted = [0];
    this.changed();
    this.next();
  }

  private next(): void {
    if (this.error !== undefined) return;
    const missing = this.wanted.filter((page) => (!this.pages.has(page) || this.stale.has(page)) && !this.loading.has(page) && page * this.size < this.count);
    for (const page of missing.slice(0, Math.max(0, AT_ONCE - this.loading.size))) this.load(page);
  }

  private load(page: number): void {
    const aborter = new AbortController();
    this.loading.set(page, aborter);
    const limit = this.isCounted ? Math.min(this.size, this.count - page * this.size) : this.size;
    this.source.read(this.position(page, limit), limit, aborter.signal).then(
      (rows) => {
        if (aborter.signal.aborted) return;
        this.loading.delete(page);
        this.stale.delete(page);
        this.keep(page, rows);
        this.changed();
        this.next();
      },
      (error) => {
        if (aborter.signal.aborted) return;
        this.loading.delete(page);
        this.failed(error);
      },
    );
  }

  private readonly failed = (error: unknown): void => {
    if (this.counting.signal.aborted) return;
    this.error = error;
    this.changed();
  };

  private position(page: number, limit: number): Position {
    const start: Position = { kind: 'start', skip: page * this.size };
    if (page === 0 || !this.source.isOrdered) return start;
    const same = this.stale.get(page);
    if (same !== undefined) return { kind: 'at', id: same };
    const before = this.stale.has(page - 1) ? undefined : this.pages.get(page - 1);
    if (before?.rows.length === this.size) return { kind: 'after', id: before.rows.at(-1)!.id };
    const after = this.stale.has(page + 1) ? undefined : this.pages.get(page + 1)?.rows[0];
    if (after) return { kind: 'before', id: after.id };
    const fromEnd = this.count - page * this.size - limit;
    return this.isCounted && fromEnd < page * this.size ? { kind: 'end', skip: fromEnd } : start;
  }

  private keep(page: number, rows: DocumentRow[]): void {
    this.isReady = true;
    this.pages.delete(page);
    this.pages.set(page, { rows, length: rows.reduce((sum, row) => sum + row.length, 0) });
    if (!this.isCounted) {
      const end = page * this.size + rows.length;
      if (rows.length < this.size) {
        this.count = end;
        this.isCounted = true;
      } else this.count = Math.max(this.count, end + this.size);
    }
    let kept = [...this.pages.values()].reduce((sum, { length }) => sum + length, 0);
    for (const [number, { length }] of [...this.pages]) {
      if (kept <= MOST_KEPT || this.pages.size <= LEAST_PAGES) break;
      if (this.wanted.includes(number)) continue;
      this.pages.delete(number);
      kept -= length;
    }
  }
}
