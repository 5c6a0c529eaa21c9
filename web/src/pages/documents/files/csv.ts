// Tables of values separated by commas, semicolons or tabs: reading, and guessing the types of cells; writing.

import { array, boolean, nothing, number, object, string, type Entry, type Node, type ObjectNode } from '../../../json/node.ts';
import { parseJson } from '../../../json/parse.ts';
import { compact, specialText } from '../../../json/print.ts';

/** A line of the table. Cells in quotation marks may hold line breaks. */
export interface CsvRecord {
  readonly cells: readonly string[];
  /** The line where it begins, from 1. */
  readonly line: number;
}

const SEPARATORS = [',', ';', '\t', '|'];

/** Cuts a text, which arrives in parts, into records. */
export class CsvReader {
  private separator: string | undefined;
  private cells: string[] = [];
  private cell = '';
  private isQuoted = false;
  /** Whether the last character was a quotation mark in a quoted cell: the next one decides what it means. */
  private isAfterQuote = false;
  private line = 1;
  private firstLine = 1;
  private waiting = '';
  private hasText = false;

  constructor(separator?: string) {
    this.separator = separator;
  }

  push(part: string): CsvRecord[] {
    let text = part;
    if (this.separator === undefined) {
      // The separator is guessed from the first line, so that line must be there.
      this.waiting += part;
      if (!this.waiting.includes('\n')) return [];
      text = this.begin();
    }
    return this.read(text);
  }

  end(): CsvRecord[] {
    const records = this.separator === undefined ? this.read(this.begin()) : [];
    if (this.hasText || this.cells.length > 0) records.push(...this.finish());
    return records;
  }

  /** Whether the text ended within quotation marks. */
  get isOpen(): boolean {
    return this.isQuoted && !this.isAfterQuote;
  }

  private begin(): string {
    const text = this.waiting.replace(/^\ufeff/, '');
    this.waiting = '';
    const first = text.split('\n')[0]!.replace(/"[^"]*"/g, '');
    const counts = SEPARATORS.map((each) => first.split(each).length);
    this.separator = SEPARATORS[counts.indexOf(Math.max(...counts))];
    return text;
  }

  private finish(): CsvRecord[] {
    const cells = [...this.cells, this.cell];
    const isEmpty = cells.length === 1 && cells[0] === '' && !this.hasText;
    this.cells = [];
    this.cell = '';
    this.isQuoted = this.isAfterQuote = this.hasText = false;
    return isEmpty ? [] : [{ cells, line: this.firstLine }];
  }

  private read(text: string): CsvRecord[] {
    const records: CsvRecord[] = [];
    for (const letter of text) {
      if (letter === '\n') this.line++;
      if (this.isQuoted && !this.isAfterQuote) {
        if (letter === '"') this.isAfterQuote = true;
        else this.cell += letter;
        continue;
      }
      if (this.isAfterQuote) {
        this.isAfterQuote = false;
        if (letter === '"') {
          this.cell += '"';
          continue;
        }
        this.isQuoted = false;
      }
      if (letter === '"' && this.cell === '') {
        this.isQuoted = this.hasText = true;
      } else if (letter === this.separator) {
        this.cells.push(this.cell);
        this.cell = '';
        this.hasText = true;
      } else if (letter === '\n') {
        records.push(...this.finish());
        this.firstLine = this.line;
      } else if (letter !== '\r') {
        this.cell += letter;
        this.hasText = true;
      }
    }
    return records;
  }
}

/** A time with its zone. A date alone stays a text. */
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/;

/** The value that a cell most probably stands for. An empty cell is no value. */
export function guessed(cell: string): Node | undefined {
  if (cell === '') return undefined;
  if (cell === 'true' || cell === 'false') return boolean(cell === 'true');
  if (cell === 'null') return nothing;
  if (/^-?(0|[1-9]\d*)$/.test(cell) && cell !== '-0') {
    if (Number.isSafeInteger(Number(cell))) return number(cell);
    // Longer digits are numbers of accounts and the like, unless they fit.
    return cell.length <= 18 ? object([['$numberLong', string(cell)]]) : string(cell);
  }
  if (/^-?(0|[1-9]\d*)\.\d+([eE][+-]?\d+)?$/.test(cell) && cell.length <= 18) return number(cell);
  if (TIME.test(cell)) {
    const millis = Date.parse(cell.replace(' ', 'T'));
    if (!Number.isNaN(millis)) return object([['$date', string(new Date(millis).toISOString())]]);
  }
  if (/^[[{]/.test(cell)) {
    try {
      return parseJson(cell);
    } catch {
      // A text that only begins like JSON.
    }
  }
  return string(cell);
}

/** The document of a record. A dotted name of a column reaches into objects. */
export function documentOf(header: readonly string[], cells: readonly string[], withTypes: boolean): ObjectNode {
  const root: Tree = new Map();
  header.forEach((name, column) => {
    const cell = cells[column] ?? '';
    const value = name === '_id' || !withTypes ? (cell === '' ? undefined : string(cell)) : guessed(cell);
    if (value !== undefined && name !== '') place(root, name.split('.'), value);
  });
  return treeObject(root);
}

type Tree = Map<string, Node | Tree>;

function place(tree: Tree, [name, ...rest]: readonly string[], value: Node): void {
  if (rest.length === 0) {
    tree.set(name!, value);
    return;
  }
  let inner = tree.get(name!);
  if (!(inner instanceof Map)) tree.set(name!, (inner = new Map()));
  place(inner, rest, value);
}

function treeObject(tree: Tree): ObjectNode {
  return object([...tree].map(([name, value]): Entry => [name, value instanceof Map ? treeObject(value) : value]));
}

/** A line of a table. */
export function csvLine(values: readonly (Node | undefined)[]): string {
  return `${values.map((value) => quoted(cellText(value))).join(',')}\r\n`;
}

/** A value as the text of a cell. Arrays and objects are JSON. */
export function cellText(value: Node | undefined): string {
  if (!value) return '';
  if (value.kind === 'string') return value.value;
  return specialText(value) ?? compact(value.kind === 'array' ? array(value.items) : value);
}

export function quoted(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
