// The picture of a document's revisions: generations from left to right, branches from top to bottom.

import { useMemo } from 'preact/hooks';
import { pixelsOf } from '../../ui/virtual.tsx';
import { layout, type Branch, type TreeNode } from './tree.ts';

const COLUMN = 118;
const LINE = 52;
const WIDTH = 96;
const HEIGHT = 30;
const EDGE = 12;

interface Props {
  branches: readonly Branch[];
  /** The revisions that are compared. */
  left: string | undefined;
  right: string | undefined;
  onChoose: (rev: string) => void;
}

export function TreeView({ branches, left, right, onChoose }: Props) {
  const nodes = useMemo(() => layout(branches), [branches]);
  const byRev = new Map(nodes.map((node) => [node.rev, node]));
  const width = 2 * EDGE + Math.max(0, ...nodes.map(({ column }) => column)) * COLUMN + WIDTH;
  const height = 2 * EDGE + Math.max(0, ...nodes.map(({ line }) => line)) * LINE + HEIGHT;
  const x = ({ column }: TreeNode) => EDGE + column * COLUMN;
  const y = ({ line }: TreeNode) => EDGE + line * LINE;
  return (
    <div class="revision-tree" role="region" aria-label="Tree of revisions" tabIndex={0}>
      <div class="revision-canvas" style={{ width: pixelsOf(width), height: pixelsOf(height) }}>
        <svg width={width} height={height} aria-hidden="true">
          {nodes.map((node) => {
            const from = node.from === undefined ? undefined : byRev.get(node.from);
            if (!from) return null;
            const [x1, y1, x2, y2] = [x(from) + WIDTH, y(from) + HEIGHT / 2, x(node), y(node) + HEIGHT / 2];
            const middle = x2 - (COLUMN - WIDTH) / 2;
            return (
              <g key={node.rev} class={node.skipped > 0 ? 'edge skipped' : 'edge'}>
                <path d={`M${x1} ${y1} H${middle} V${y2} H${x2}`} />
              </g>
            );
          })}
        </svg>
        {nodes.map((node) => (
          <button
            key={node.rev}
            type="button"
            class={`revision-node${node.isWinner ? ' winner' : node.isLeaf ? ' leaf' : ''}${node.deleted ? ' deleted' : ''}`}
            style={{ left: pixelsOf(x(node)), top: pixelsOf(y(node)), width: pixelsOf(WIDTH), height: pixelsOf(HEIGHT) }}
            aria-label={nameOf(node)}
            aria-pressed={node.rev === left || node.rev === right}
            title={`${node.rev}${node.skipped > 0 ? `, after ${node.skipped} revisions that are not drawn` : ''}`}
            onClick={() => onChoose(node.rev)}
          >
            {shortRev(node.rev)}
          </button>
        ))}
      </div>
    </div>
  );
}

/** The generation and the first digits. */
function shortRev(rev: string): string {
  return rev.slice(0, rev.indexOf('-') + 6);
}

function nameOf({ rev, isWinner, isLeaf, deleted }: TreeNode): string {
  const role = deleted ? ', deleted' : isWinner ? ', the winner' : isLeaf ? ', in conflict' : '';
  return `Revision ${shortRev(rev)}${role}`;
}
