// Parses JSON, and what people type in MongoDB's shell: names without quotation marks, single quotation marks, trailing
// commas, comments, regular expressions between slashes, and constructors such as `ObjectId("…")`.

import { array, boolean, nothing, number, object, string, type Entry, type Node } from './node.ts';

/** The text is not a document. `offset` counts characters from the beginning. */
export class ParseError extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** The depth at which the server refuses documents, and some more. */
const MAX_DEPTH = 200;

/** Parses strict JSON. */
export function parseJson(text: string): Node {
  return new Parser(text, false).whole();
}

/** Parses JSON or the shell's notation. */
export function parseShell(text: string): Node {
  return new Parser(text, true).whole();
}

const PUNCTUATION = /[\s,:[\]{}()"'`]/;

class Parser {
  private position = 0;
  private depth = 0;
  private readonly text: string;
  private readonly shell: boolean;

  constructor(text: string, shell: boolean) {
    this.text = text;
    this.shell = shell;
  }

  whole(): Node {
    const node = this.value();
    this.skip();
    if (this.position < this.text.length) this.fail(`unexpected ${this.shown()} after the end of the value`);
    return node;
  }

  private fail(message: string, offset = this.position): never {
    throw new ParseError(message, offset);
  }

  private shown(): string {
    const next = this.text.slice(this.position, this.position + 1);
    return next === '' ? 'end' : `\`${next}\``;
  }

  /** Skips white space, and comments of the shell. */
  private skip(): void {
    for (;;) {
      while (/\s/.test(this.text[this.position] ?? '')) this.position++;
      if (!this.shell || this.text[this.position] !== '/') return;
      if (this.text.startsWith('//', this.position)) {
        const end = this.text.indexOf('\n', this.position);
        this.position = end < 0 ? this.text.length : end;
      } else if (this.text.startsWith('/*', this.position)) {
        const end = this.text.indexOf('*/', this.position + 2);
        if (end < 0) this.fail('the comment has no end');
        this.position = end + 2;
      } else return;
    }
  }

  private take(expected: string): boolean {
    this.skip();
    if (this.text[this.position] !== expected) return false;
    this.position++;
    return true;
  }

  private value(): Node {
    this.skip();
    const next = this.text[this.position];
    if (next === undefined) this.fail('a value is missing at the end');
    if (next === '{' || next === '[') {
      if (++this.depth > MAX_DEPTH) this.fail(`more than ${MAX_DEPTH} levels deep`);
      this.position++;
      const node = next === '{' ? object(this.members()) : array(this.list(']'));
      this.depth--;
      return node;
    }
    if (next === '"' || (this.shell && (next === "'" || next === '`'))) return string(this.quoted());
    if (this.shell && next === '/') return this.regularExpression();
    const start = this.position;
    const word = this.word();
    if (word === '') this.fail(`unexpected ${this.shown()}: a value is missing`);
    if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(word)) return number(word);
    if (word === 'true' || word === 'false') return boolean(word === 'true');
    if (word === 'null') return nothing;
    if (this.shell) {
      if (/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(word)) return number(String(Number(word)));
      if (word === 'undefined') return nothing;
      if (/^-?(Infinity|NaN)$/.test(word)) return object([['$numberDouble', string(word)]]);
      return this.constructed(word, start);
    }
    this.fail(`\`${word}\` is not JSON`, start);
  }

  private word(): string {
    const start = this.position;
    while (this.position < this.text.length && !PUNCTUATION.test(this.text[this.position]!)) this.position++;
    return this.text.slice(start, this.position);
  }

  private members(): Entry[] {
    const entries: Entry[] = [];
    const names = new Set<string>();
    if (this.take('}')) return entries;
    for (;;) {
      this.skip();
      const start = this.position;
      const name = this.name();
      if (names.has(name)) this.fail(`the field \`${name}\` is there twice`, start);
      names.add(name);
      if (!this.take(':')) this.fail(`unexpected ${this.shown()}: a colon is missing after \`${name}\``);
      entries.push([name, this.value()]);
      if (this.take('}')) return entries;
      if (!this.take(',')) this.fail(`unexpected ${this.shown()}: a comma or } is missing`);
      if (this.shell && this.take('}')) return entries;
    }
  }

  private name(): string {
    const next = this.text[this.position];
    if (next === '"' || (this.shell && (next === "'" || next === '`'))) return this.quoted();
    const start = this.position;
    const word = this.shell ? this.word() : '';
    if (!/^[\p{L}\p{N}_$][\p{L}\p{N}_$.]*$/u.test(word)) {
      this.position = start;
      this.fail(`unexpected ${this.shown()}: a field's name is missing`);
    }
    return word;
  }

  private list(close: string): Node[] {
    const items: Node[] = [];
    if (this.take(close)) return items;
    for (;;) {
      items.push(this.value());
      if (this.take(close)) return items;
      if (!this.take(',')) this.fail(`unexpected ${this.shown()}: a comma or ${close} is missing`);
      if (this.shell && this.take(close)) return items;
    }
  }

  private quoted(): string {
    const start = this.position;
    const quote = this.text[this.position++];
    let value = '';
    for (;;) {
      const next = this.text[this.position++];
      if (next === undefined || (next === '\n' && quote !== '`')) this.fail('the text has no closing quotation mark', start);
      if (next === quote) return value;
      if (next !== '\\') {
        if (next < ' ' && !this.shell) this.fail('control characters in a text are written as \\u escapes', this.position - 1);
        value += next;
        continue;
      }
      const escape = this.text[this.position++] ?? '';
      const plain = ESCAPES.get(escape);
      if (plain !== undefined) value += plain;
      else if (escape === 'u') {
        const digits = this.text.slice(this.position, this.position + 4);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail('\\u needs four hexadecimal digits', this.position - 2);
        value += String.fromCharCode(parseInt(digits, 16));
        this.position += 4;
      } else if (this.shell) value += escape;
      else this.fail(`\`\\${escape}\` is not an escape of JSON`, this.position - 2);
    }
  }

  private regularExpression(): Node {
    const start = this.position++;
    let pattern = '';
    let inClass = false;
    for (;;) {
      const next = this.text[this.position++];
      if (next === undefined || next === '\n') this.fail('the regular expression has no end', start);
      if (next === '/' && !inClass) break;
      if (next === '[') inClass = true;
      if (next === ']') inClass = false;
      if (next === '\\') {
        const escaped = this.text[this.position++] ?? '';
        pattern += escaped === '/' ? '/' : `\\${escaped}`;
      } else pattern += next;
    }
    const options = /^[a-z]*/.exec(this.text.slice(this.position))![0];
    this.position += options.length;
    // JavaScript's flags g, u and y have no meaning in a query.
    const kept = [...options].filter((flag) => 'imsx'.includes(flag)).sort().join('');
    return object([['$regularExpression', object([['pattern', string(pattern)], ['options', string(kept)]])]]);
  }

  private constructed(word: string, start: number): Node {
    let name = word;
    if (word === 'new') {
      this.skip();
      name = this.word();
    }
    if (name === 'MinKey' || name === 'MaxKey') {
      if (this.take('(')) this.list(')');
      return object([[name === 'MinKey' ? '$minKey' : '$maxKey', number(1)]]);
    }
    if (!this.take('(')) this.fail(`\`${name}\` is not a value: write texts in quotation marks`, start);
    const values = this.list(')');
    const text = (index = 0) => {
      const value = values[index];
      return value?.kind === 'string' ? value.value : value?.kind === 'number' ? value.text : undefined;
    };
    const first = text();
    switch (name) {
      case 'ObjectId':
      case 'ObjectID':
        if (!/^[0-9a-fA-F]{24}$/.test(first ?? '')) this.fail('ObjectId needs 24 hexadecimal digits', start);
        return object([['$oid', string(first!.toLowerCase())]]);
      case 'ISODate':
      case 'Date': {
        const date = values.length === 0 ? new Date() : new Date(values[0]?.kind === 'number' ? Number(first) : (first ?? NaN));
        if (Number.isNaN(date.getTime())) this.fail(`${name} needs a date such as "2024-05-06T07:08:09Z"`, start);
        return object([['$date', string(date.toISOString())]]);
      }
      case 'NumberLong':
      case 'Long':
        return object([['$numberLong', string(first ?? '0')]]);
      case 'NumberInt':
      case 'Int32':
        return object([['$numberInt', string(first ?? '0')]]);
      case 'Double':
        return object([['$numberDouble', string(first ?? '0')]]);
      case 'NumberDecimal':
      case 'Decimal128':
        return object([['$numberDecimal', string(first ?? '0')]]);
      case 'UUID':
        return object([['$uuid', string(first ?? '')]]);
      case 'BinData':
        return object([['$binary', object([['base64', string(text(1) ?? '')], ['subType', string(Number(first).toString(16).padStart(2, '0'))]])]]);
      case 'Timestamp':
        return object([['$timestamp', object([['t', values[0] ?? number(0)], ['i', values[1] ?? number(0)]])]]);
      case 'RegExp':
        return object([['$regularExpression', object([['pattern', string(first ?? '')], ['options', string(text(1) ?? '')]])]]);
      case 'DBRef':
        return object([['$ref', values[0] ?? nothing], ['$id', values[1] ?? nothing], ...(values[2] ? [['$db', values[2]] as const] : [])]);
      default:
        return this.fail(`\`${name}\` is not a known constructor`, start);
    }
  }
}

const ESCAPES = new Map([['"', '"'], ["'", "'"], ['`', '`'], ['\\', '\\'], ['/', '/'], ['b', '\b'], ['f', '\f'], ['n', '\n'], ['r', '\r'], ['t', '\t']]);
