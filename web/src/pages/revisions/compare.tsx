// Two revisions side by side. Two leaves in conflict become one: field by field.

import { useMemo, useState } from 'preact/hooks';
import { object, type ObjectNode } from '../../json/node.ts';
import { pretty } from '../../json/print.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { may } from '../../state/session.ts';
import { useUnsaved } from '../../state/unsaved.ts';
import { Segments, Shown } from '../../ui/basics.tsx';
import { confirm } from '../../ui/dialog.tsx';
import { Diff } from '../../ui/diff.tsx';
import { deleteDocument, isConflict, saveDocument, type Stored } from '../documents/stored.ts';
import { loadRevision } from './branches.ts';
import { FieldMerge } from './field-merge.tsx';
import { fieldPairs, merged, ownChoices, pathKey, undecided, type Choice } from './fields.ts';
import { commonAncestor, openLeaves, type Branch } from './tree.ts';

interface Props {
  db: string;
  id: string;
  branches: readonly Branch[];
  left: string;
  right: string;
  onResolved: () => void;
}

type Loaded = { left: Stored | undefined; right: Stored | undefined; base: Stored | undefined };

export function Compare(props: Props) {
  const { db, id, branches, left, right } = props;
  const base = commonAncestor(branches, left, right);
  const loaded = useLoad(async (signal): Promise<Loaded> => {
    const [a, b, c] = await Promise.all([left, right, base].map((rev) => (rev === undefined ? undefined : loadRevision(db, id, rev, signal))));
    return { left: a, right: b, base: c };
  }, [db, id, left, right, base]);
  const found = loaded.value;
  // Once both are shown, a failure to load them again must not take the choices away.
  if (!found) return <Shown of={loaded}>{() => null}</Shown>;
  if (!found.left || !found.right) {
    return <p class="warning-box">The contents of {found.left ? right : left} are not kept: the server remembers old revisions by name only.</p>;
  }
  return <Sides {...props} a={found.left} b={found.right} base={found.base} />;
}

function Sides({ db, id, branches, left, right, onResolved, a, b, base }: Props & { a: Stored; b: Stored; base: Stored | undefined }) {
  const [view, setView] = useState<'fields' | 'text'>('fields');
  const leaves = openLeaves(branches);
  const inConflict = left !== right && leaves.includes(left) && leaves.includes(right);
  const others = leaves.filter((rev) => rev !== left && rev !== right);
  const mayResolve = inConflict && (id.startsWith('_design/') ? may('collMod', db) : may('update', db) && may('remove', db));
  const pairs = useMemo(() => fieldPairs(a.body, b.body), [a, b]);
  const [choices, setChoices] = useState<ReadonlyMap<string, Choice>>(() => ownChoices(pairs, base?.body));
  // The merged document follows the winner, unless the attachments of the other one are kept: a revision has those of its parent.
  const [keptSide, setKeptSide] = useState<'left' | 'right'>(right === leaves[0] ? 'right' : 'left');
  const [withOthers, setWithOthers] = useState(false);
  const [busy, setBusy] = useState(false);
  const [touched, setTouched] = useState(false);
  const end = useUnsaved(touched && mayResolve, 'The merge of two revisions');
  const left0 = undecided(pairs, choices).length;

  /** The leaves that a step ends. */
  const endedBeside = (other: Stored) => [other.rev, ...(withOthers ? others : [])];
  /** What is saved comes first, so that nothing is lost if a later step fails. */
  const finish = async (keep: 'left' | 'right', body: ObjectNode | undefined) => {
    const [kept, other] = keep === 'left' ? [a, b] : [b, a];
    let isHalfDone = false;
    setBusy(true);
    try {
      if (body) {
        await saveDocument(db, id, body, { rev: kept.rev, attachments: kept.attachments });
        isHalfDone = true;
      }
      for (const rev of endedBeside(other)) {
        await deleteDocument(db, id, rev);
        isHalfDone = true;
      }
      end();
      done(others.length === 0 || withOthers ? 'The conflict is resolved.' : `Two revisions are one now. ${others.length + 1} revisions are still in conflict.`);
      onResolved();
    } catch (error) {
      failed(isConflict(error) ? 'Somebody else has changed the document meanwhile. Its revisions are loaded again.' : error);
      if (!isHalfDone && !isConflict(error)) return;
      end();
      onResolved();
    } finally {
      setBusy(false);
    }
  };
  const keepOne = async (keep: 'left' | 'right') => {
    const [kept, other] = keep === 'left' ? [a, b] : [b, a];
    const agreed = await confirm({ title: `Keep the ${keep} revision?`, text: `${kept.rev} stays as it is. This is deleted: ${endedBeside(other).join(', ')}.`, action: 'Keep it', dangerous: true });
    if (agreed) await finish(keep, undefined);
  };
  const hasAttachments = (a.attachments?.entries.length ?? 0) + (b.attachments?.entries.length ?? 0) > 0;
  const names = (stored: Stored) => stored.attachments?.entries.map(([name]) => name).join(', ') || 'none';

  return (
    <section class="panel compare" aria-label="Two revisions side by side">
      <div class="toolbar">
        <Segments
          label="How they are compared"
          options={[
            ['fields', 'By field'],
            ['text', 'As text'],
          ]}
          value={view}
          onChange={setView}
        />
        {mayResolve && <span class="soft">Choose the value of each field, then save: the two become one revision.</span>}
        <span class="space" />
        {mayResolve && (
          <>
            <button type="button" disabled={busy} onClick={() => keepOne('left')}>
              Keep left
            </button>
            <button type="button" disabled={busy} onClick={() => keepOne('right')}>
              Keep right
            </button>
          </>
        )}
      </div>
      {view === 'fields' ? (
        <FieldMerge
          pairs={pairs}
          labels={['left', 'right']}
          choices={choices}
          onChoose={
            mayResolve
              ? (key, choice) => {
                  setTouched(true);
                  setChoices(new Map(choices).set(key, choice));
                }
              : undefined
          }
        />
      ) : (
        <Diff old={pretty(object(a.body.entries))} now={pretty(object(b.body.entries))} label="Differences" />
      )}
      {hasAttachments && (
        <div class="toolbar">
          <span>
            Attachments: left {names(a)}; right {names(b)}.
          </span>
          {mayResolve && (
            <Segments
              label="Attachments that are kept"
              options={[
                ['left', 'Keep those of left'],
                ['right', 'Keep those of right'],
              ]}
              value={keptSide}
              onChange={setKeptSide}
            />
          )}
        </div>
      )}
      {mayResolve && others.length > 0 && (
        <label class="check">
          <input type="checkbox" checked={withOthers} onChange={(event) => setWithOthers(event.currentTarget.checked)} />
          Also delete the {others.length === 1 ? 'other revision' : `${others.length} other revisions`} in conflict, without merging
        </label>
      )}
      {mayResolve && (
        <div class="toolbar">
          <button type="button" class="primary" disabled={busy || left0 > 0} onClick={() => finish(keptSide, merged(a.body, b.body, choices))}>
            Save the merged document
          </button>
          <span class="soft">{left0 > 0 ? `${left0} ${left0 === 1 ? 'field has' : 'fields have'} no choice yet.` : 'All fields are decided.'}</span>
          {left0 > 0 && (
            <>
              {(['left', 'right'] as const).map((from) => (
                <button key={from} type="button" onClick={() => setChoices(new Map([...undecided(pairs, choices).map(({ path }) => [pathKey(path), { from }] as const), ...decided(choices, pairs)]))}>
                  Take {from} for the rest
                </button>
              ))}
            </>
          )}
        </div>
      )}
    </section>
  );
}

/** The choices that are valid. */
function decided(choices: ReadonlyMap<string, Choice>, pairs: ReturnType<typeof fieldPairs>): [string, Choice][] {
  const open = new Set(undecided(pairs, choices).map(({ path }) => pathKey(path)));
  return [...choices].filter(([key]) => !open.has(key));
}
