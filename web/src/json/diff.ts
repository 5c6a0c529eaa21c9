// The differences between two texts, by lines.

/** A line that both texts have, that was removed, or that was added. */
export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
  /** The line's number in the text where it stands; for equal lines, in the new text. */
  readonly line: number;
}

/** The number of edits up to which the shortest difference is sought. Beyond it whole blocks are shown as replaced. */
const MOST_EDITS = 2000;

/** The lines of two texts, in order: the shortest list of changes from `old` to `now`. */
export function diffLines(old: string, now: string): DiffLine[] {
  const a = old.split('\n');
  const b = now.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (from: number, to: number): DiffLine[] => b.slice(from, to).map((text, step) => ({ kind: 'same', text, line: from + step + 1 }));
  const middle = edits(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [
    ...same(0, head),
    ...middle.map((line) => ({ ...line, line: line.line + head })),
    ...same(b.length - tail, b.length),
  ];
}

/** Myers's algorithm: the furthest point on each diagonal for each number of edits, then the way back. */
function edits(a: readonly string[], b: readonly string[]): DiffLine[] {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const reached = new Int32Array(2 * most + 3);
  const middle = most + 1;
  const trace: Int32Array[] = [];
  for (let edit = 0; edit <= most; edit++) {
    trace.push(reached.slice(middle - edit - 1, middle + edit + 2));
    for (let diagonal = -edit; diagonal <= edit; diagonal += 2) {
      const down = diagonal === -edit || (diagonal !== edit && reached[middle + diagonal - 1]! < reached[middle + diagonal + 1]!);
      let x = down ? reached[middle + diagonal + 1]! : reached[middle + diagonal - 1]! + 1;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x++;
      reached[middle + diagonal] = x;
      if (x >= a.length && x - diagonal >= b.length) return wayBack(a, b, trace);
    }
  }
  return [
    ...a.map((text, at): DiffLine => ({ kind: 'removed', text, line: at + 1 })),
    ...b.map((text, at): DiffLine => ({ kind: 'added', text, line: at + 1 })),
  ];
}

function wayBack(a: readonly string[], b: readonly string[], trace: readonly Int32Array[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let [x, y] = [a.length, b.length];
  const keep = () => lines.push({ kind: 'same', text: b[--y]!, line: (x--, y + 1) });
  for (let edit = trace.length - 1; edit > 0; edit--) {
    const before = trace[edit]!;
    const at = (diagonal: number) => before[diagonal + edit + 1]!;
    const diagonal = x - y;
    const down = diagonal === -edit || (diagonal !== edit && at(diagonal - 1) < at(diagonal + 1));
    const startX = down ? at(diagonal + 1) : at(diagonal - 1);
    const startY = startX - (down ? diagonal + 1 : diagonal - 1);
    while (x > startX && y > startY && (down ? y > startY + 1 : x > startX + 1)) keep();
    if (down) lines.push({ kind: 'added', text: b[--y]!, line: y + 1 });
    else lines.push({ kind: 'removed', text: a[--x]!, line: x + 1 });
  }
  while (x > 0 && y > 0) keep();
  return lines.reverse();
}

/** A stretch of lines that is shown, or a number of equal lines that are not. */
export type DiffPart = { readonly kind: 'lines'; readonly lines: readonly DiffLine[] } | { readonly kind: 'gap'; readonly count: number };

/** The changed lines with `context` equal lines around them. */
export function withContext(lines: readonly DiffLine[], context = 3): DiffPart[] {
  const shown = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== 'same') shown.fill(1, Math.max(0, at - context), at + context + 1);
  });
  const parts: DiffPart[] = [];
  for (let start = 0; start < lines.length; ) {
    let end = start;
    while (end < lines.length && shown[end] === shown[start]) end++;
    parts.push(shown[start] === 1 ? { kind: 'lines', lines: lines.slice(start, end) } : { kind: 'gap', count: end - start });
    start = end;
  }
  return parts;
}
