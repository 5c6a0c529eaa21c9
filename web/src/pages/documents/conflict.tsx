// Somebody else has saved the document: both versions side by side, and the merged one.

import { useMemo, useState } from 'preact/hooks';
import { object, type ObjectNode } from '../../json/node.ts';
import { FieldMerge } from '../revisions/field-merge.tsx';
import { fieldPairs, merged, ownChoices, undecided, type Choice } from '../revisions/fields.ts';
import type { Stored } from './stored.ts';

interface ConflictMergeProps {
  mine: ObjectNode;
  /** What is stored now; nothing if it was deleted. */
  theirs: Stored | undefined;
  /** What both began with. */
  base: ObjectNode | undefined;
  onBack: () => void;
  onMerged: (body: ObjectNode) => void;
}

const LABELS = ['Mine', 'Theirs'] as const;

export function ConflictMerge({ mine, theirs, base, onBack, onMerged }: ConflictMergeProps) {
  const other = theirs?.body ?? object([]);
  const pairs = useMemo(() => fieldPairs(mine, other), [mine, other]);
  const [choices, setChoices] = useState<ReadonlyMap<string, Choice>>(() => (theirs ? ownChoices(pairs, base) : new Map()));
  const open = undecided(pairs, choices);
  if (!theirs) {
    return (
      <section class="panel" aria-label="The document was deleted">
        <h2>Somebody else has deleted this document</h2>
        <p>Your text is kept. Save it to create the document again, or leave the page to accept the deletion.</p>
        <div class="toolbar">
          <button type="button" class="primary" onClick={() => onMerged(mine)}>
            Create it again with my text
          </button>
          <button type="button" onClick={onBack}>
            Back to my text
          </button>
        </div>
      </section>
    );
  }
  return (
    <section class="panel" aria-label="Two versions of the document">
      <h2>Somebody else has saved this document</h2>
      <p>
        Mine is your text, theirs is revision <code class="revision">{theirs.rev}</code>. Fields that only one of you changed are chosen already.
      </p>
      <FieldMerge pairs={pairs} labels={LABELS} choices={choices} onChoose={(key, choice) => setChoices(new Map(choices).set(key, choice))} />
      <div class="toolbar">
        <button type="button" class="primary" disabled={open.length > 0} onClick={() => onMerged(merged(mine, other, choices))}>
          Review the merged document
        </button>
        <button type="button" onClick={onBack}>
          Back to my text
        </button>
        {open.length > 0 && (
          <span role="status">
            {open.length === 1 ? 'One field needs' : `${open.length} fields need`} your choice: {open.slice(0, 5).map(({ path }) => path.join('.')).join(', ')}
          </span>
        )}
      </div>
    </section>
  );
}
