// Shows what changes between two texts.

import { useMemo } from 'preact/hooks';
import { diffLines, withContext } from '../json/diff.ts';

const SIGNS = { same: '', removed: '−', added: '+' } as const;
const NAMES = { same: '', removed: 'removed', added: 'added' } as const;

/** The lines that most documents show at once. */
const MOST_LINES = 2000;

/** The longest line that is shown whole. */
const LONGEST_LINE = 2000;

/** The changed lines of a text. Signs mark them, not colours alone. */
export function Diff({ old, now, label }: { old: string; now: string; label: string }) {
  const parts = useMemo(() => withContext(diffLines(old, now)), [old, now]);
  let left = MOST_LINES;
  return (
    <div class="diff" role="region" aria-label={label} tabIndex={0}>
      <table>
        <tbody>
          {parts.map((part, index) => {
            if (part.kind === 'gap') {
              return (
                <tr key={index} class="diff-gap">
                  <td colSpan={3}>{part.count === 1 ? '1 equal line' : `${part.count} equal lines`}</td>
                </tr>
              );
            }
            const lines = part.lines.slice(0, Math.max(0, left));
            left -= part.lines.length;
            return lines.map((line, step) => (
              <tr key={`${index} ${step}`} class={`diff-${line.kind}`}>
                <td class="diff-number">{line.line}</td>
                <td class="diff-sign">
                  <span aria-hidden="true">{SIGNS[line.kind]}</span>
                  <span class="visually-hidden">{NAMES[line.kind]}</span>
                </td>
                <td class="diff-text">{line.text.length > LONGEST_LINE ? `${line.text.slice(0, LONGEST_LINE)}…` : line.text}</td>
              </tr>
            ));
          })}
        </tbody>
      </table>
      {left < 0 && <p class="soft">{-left} more lines are not shown.</p>}
    </div>
  );
}
