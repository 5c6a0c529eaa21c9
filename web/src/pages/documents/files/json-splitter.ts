// Cuts a long text into the documents that it holds: a JSON array, or one document after the other, such as NDJSON. The text
// arrives in parts of any length.

/** The text of one document, or what stands where a document should be. */
export interface Piece {
  readonly text: string;
  /** The line where it begins, from 1. */
  readonly line: number;
  /** Why it is no document. */
  readonly problem?: string;
}

const QUOTE = 34;
const BACKSLASH = 92;
const NEWLINE = 10;
const COMMA = 44;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

const isSpace = (code: number) => code === 32 || code === 9 || code === 13 || code === NEWLINE || code === 0xfeff;

export class JsonSplitter {
  private form: 'unknown' | 'array' | 'sequence' | 'ended' = 'unknown';
  /** The beginning of the current value, from earlier parts. */
  private held = '';
  private isInValue = false;
  /** Whether the current value is not an object: it ends at a comma or at the end of the line. */
  private isOther = false;
  private depth = 0;
  private isInString = false;
  private isEscaped = false;
  private line = 1;
  private firstLine = 1;
  private isLineStart = true;

  /** The pieces that end in this part. */
  push(part: string): Piece[] {
    const pieces: Piece[] = [];
    let start = this.isInValue ? 0 : -1;
    const finish = (end: number, problem?: string) => {
      const text = this.held + part.slice(start, end);
      pieces.push(problem === undefined ? { text, line: this.firstLine } : { text, line: this.firstLine, problem });
      this.held = '';
      this.isInValue = this.isOther = this.isInString = this.isEscaped = false;
      this.depth = 0;
      start = -1;
    };
    const begin = (at: number, isOther: boolean) => {
      this.isInValue = true;
      this.isOther = isOther;
      this.firstLine = this.line;
      start = at;
    };
    for (let at = 0; at < part.length; at++) {
      const code = part.charCodeAt(at);
      const isLineStart = this.isLineStart;
      this.isLineStart = code === NEWLINE;
      if (code === NEWLINE) this.line++;
      if (this.isInString && code !== NEWLINE) {
        if (this.isEscaped) this.isEscaped = false;
        else if (code === BACKSLASH) this.isEscaped = true;
        else if (code === QUOTE) this.isInString = false;
        continue;
      }
      if (!this.isInValue) {
        if (isSpace(code) || (code === COMMA && this.form !== 'unknown')) continue;
        if (code === OPEN_ARRAY && this.form === 'unknown') {
          this.form = 'array';
          continue;
        }
        if (code === CLOSE_ARRAY && this.form === 'array') {
          this.form = 'ended';
          continue;
        }
        if (this.form === 'unknown') this.form = 'sequence';
        begin(at, code !== OPEN_OBJECT);
        if (code === OPEN_OBJECT) this.depth = 1;
        continue;
      }
      if (this.isOther) {
        const isEnd = code === NEWLINE || (this.form === 'array' && (code === COMMA || code === CLOSE_ARRAY));
        if (!isEnd) continue;
        finish(at, this.form === 'ended' ? 'the text goes on after the end of the array' : 'a document begins with {');
        if (code === CLOSE_ARRAY) this.form = 'ended';
        continue;
      }
      if (code === NEWLINE && this.isInString) {
        // No text goes over a line: its closing quotation mark is missing, and the next line begins anew.
        finish(at, 'the text has no closing quotation mark');
        continue;
      }
      // In a sequence, a document at the beginning of a line shows that the one before it has no end.
      if (isLineStart && code === OPEN_OBJECT && this.form === 'sequence') {
        finish(at, 'the document has no end');
        begin(at, false);
        this.depth = 1;
        continue;
      }
      if (code === QUOTE) this.isInString = true;
      else if (code === OPEN_OBJECT || code === OPEN_ARRAY) this.depth++;
      else if ((code === CLOSE_OBJECT || code === CLOSE_ARRAY) && --this.depth === 0) finish(at + 1);
    }
    if (this.isInValue) this.held += part.slice(start);
    return pieces;
  }

  /** What is left at the end of the text. */
  end(): Piece[] {
    if (this.isInValue) {
      return [{ text: this.held, line: this.firstLine, problem: this.isOther ? (this.form === 'ended' ? 'the text goes on after the end of the array' : 'a document begins with {') : 'the document has no end' }];
    }
    return this.form === 'array' ? [{ text: '', line: this.line, problem: 'the array has no end: a ] is missing' }] : [];
  }
}
