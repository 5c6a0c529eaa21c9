// A document as a tree that is opened step by step.

import { useState } from 'preact/hooks';
import type { Node } from '../../json/node.ts';
import { brief, typeName } from '../../json/print.ts';
import { failed } from '../../state/notices.ts';
import { go, link } from '../../state/router.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { mayNameDocument, targets, type Target } from './follow.ts';

/** The children that are shown at once. */
const STEP = 200;

/** Values with more children begin closed. */
const OPEN_CHILDREN = 50;

/** The characters of a value in the tree. */
const VALUE_LENGTH = 500;

interface TreeProps {
  db: string;
  node: Node;
}

export function DocumentTree({ db, node }: TreeProps) {
  const [withTypes, setWithTypes] = useState(false);
  const [choice, setChoice] = useState<{ name: string; found: Target[] }>();
  const follow = (name: string, value: Node) => {
    targets(db, name, value).then((found) => {
      if (found.length === 1) go(['db', found[0]!.db, 'doc', found[0]!.id]);
      else setChoice({ name, found });
    }, failed);
  };
  return (
    <div class="document-tree">
      <label class="check">
        <input type="checkbox" checked={withTypes} onChange={(event) => setWithTypes(event.currentTarget.checked)} />
        Show types
      </label>
      <Children node={node} withTypes={withTypes} follow={follow} depth={0} />
      {choice && (
        <Dialog title={`Documents that ${choice.name} names`} onClose={() => setChoice(undefined)}>
          <div class="dialog-body">
            {choice.found.length === 0 ? (
              <p>No document that you may read has this id.</p>
            ) : (
              <ul>
                {choice.found.map((target) => (
                  <li key={target.db}>
                    <a href={link(['db', target.db, 'doc', target.id])} onClick={() => setChoice(undefined)}>
                      {target.db}: {target.id}
                    </a>
                  </li>
                ))}
              </ul>
            )}
          </div>
        </Dialog>
      )}
    </div>
  );
}

interface BranchProps {
  node: Node;
  withTypes: boolean;
  follow: (name: string, value: Node) => void;
  depth: number;
  /** The name of the field that holds the array or object. */
  within?: string;
}

const childrenOf = (node: Node): readonly (readonly [string, Node])[] =>
  node.kind === 'array' ? node.items.map((item, index) => [String(index), item] as const) : node.kind === 'object' ? node.entries : [];

function Children({ node, within, ...shared }: BranchProps) {
  const [shown, setShown] = useState(STEP);
  const children = childrenOf(node);
  if (children.length === 0) return <p class="soft">Nothing in here.</p>;
  return (
    <ul>
      {children.slice(0, shown).map(([name, value]) => (
        <Branch key={name} name={name} fieldName={node.kind === 'array' ? (within ?? '') : name} value={value} {...shared} />
      ))}
      {children.length > shown && (
        <li>
          <button type="button" onClick={() => setShown(shown + STEP)}>
            Show {Math.min(STEP, children.length - shown)} more of {children.length - shown}
          </button>
        </li>
      )}
    </ul>
  );
}

interface NamedProps extends Omit<BranchProps, 'node' | 'within'> {
  name: string;
  /** The field's name; elements of an array have their array's. */
  fieldName: string;
  value: Node;
}

function Branch({ name, fieldName, value, withTypes, follow, depth }: NamedProps) {
  const children = typeName(value) === 'object' || value.kind === 'array' ? childrenOf(value) : [];
  const [isOpen, setOpen] = useState(depth < 1 && children.length <= OPEN_CHILDREN);
  const type = withTypes && <span class="badge">{typeName(value)}</span>;
  const followed = mayNameDocument(fieldName, value) && (
    <button type="button" class="plain follow" onClick={() => follow(fieldName, value)} aria-label={`Go to the document that ${fieldName} names`}>
      → open
    </button>
  );
  if (children.length === 0) {
    return (
      <li>
        <span class="tree-name">{name}</span> <span class={`tree-value ${value.kind}`}>{brief(value, VALUE_LENGTH)}</span> {type} {followed}
      </li>
    );
  }
  return (
    <li>
      <button type="button" class="plain tree-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
        <span class="tree-name">{name}</span>
        <span class="soft">{value.kind === 'array' ? `${children.length} elements` : `${children.length} fields`}</span>
      </button>{' '}
      {type} {followed}
      {isOpen && <Children node={value} within={fieldName} withTypes={withTypes} follow={follow} depth={depth + 1} />}
    </li>
  );
}
