// Edits one document as JSON: problems at their place, what changes before it is saved, and what others have saved meanwhile.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { failed, done } from '../../state/notices.ts';
import { useInterval } from '../../state/load.ts';
import { useUnsaved } from '../../state/unsaved.ts';
import { same, object, type ObjectNode } from '../../json/node.ts';
import { pretty } from '../../json/print.ts';
import { bytes, ErrorBox } from '../../ui/basics.tsx';
import { Diff } from '../../ui/diff.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Editor } from '../../ui/editor.tsx';
import { ConflictMerge } from './conflict.tsx';
import { checkBody, currentRevision, isConflict, loadDocument, saveDocument, type Stored } from './stored.ts';

interface DocumentEditorProps {
  db: string;
  id: string;
  /** The document as it was loaded; nothing if it is new. */
  base: Stored | undefined;
  /** What a new document begins with. */
  first?: ObjectNode;
  readOnly?: boolean;
  onSaved: (rev: string) => void;
  /** Called when the text begins or ceases to differ from what is stored. */
  onChanged?: (isChanged: boolean) => void;
}

/** Documents whose text is longer are shown in part until the person asks for all. */
const SHOWN_AT_ONCE = 300_000;

/** Texts that are longer are checked when they are saved, not while they are typed. */
const CHECKED_AT_ONCE = 1_000_000;

/** How often the page asks whether somebody else has saved the document. */
const WATCH_MS = 5000;

export function DocumentEditor({ db, id, base: loaded, first = object([]), readOnly = false, onSaved, onChanged }: DocumentEditorProps) {
  const [base, setBase] = useState(loaded);
  const original = useMemo(() => pretty(base?.body ?? first), [base, first]);
  const [text, setText] = useState(original);
  const [isWhole, setWhole] = useState(original.length <= SHOWN_AT_ONCE);
  const [review, setReview] = useState<ObjectNode>();
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState<unknown>();
  const [theirs, setTheirs] = useState<{ stored: Stored | undefined; mine: ObjectNode }>();
  const [isOld, setOld] = useState(false);
  const isChanged = text !== original;
  const saved = useUnsaved(isChanged, base ? 'The document' : 'The new document');

  useEffect(() => onChanged?.(isChanged), [isChanged]);

  // The page has loaded a newer revision: an untouched text follows it, a changed one keeps its own base.
  const previous = useRef(loaded);
  useEffect(() => {
    if (previous.current === loaded) return;
    previous.current = loaded;
    if (!loaded) return;
    const hasSameBody = base !== undefined && same(base.body, loaded.body);
    if (isChanged && !hasSameBody) return;
    setBase(loaded);
    setOld(false);
    if (!isChanged) setText(pretty(loaded.body));
  }, [loaded]);

  useInterval(() => {
    if (!base || saving || theirs) return;
    currentRevision(db, id).then(
      (rev) => {
        if (rev === base.rev) return;
        if (isChanged) setOld(true);
        else if (rev !== undefined) onSaved(rev);
      },
      // The page shows by itself that the server is away.
      () => undefined,
    );
  }, WATCH_MS);

  const openReview = () => {
    setError(undefined);
    const { body, problems } = checkBody(text, id, base?.rev);
    if (problems) setError(new Error(`${problems[0]!.message} (line ${text.slice(0, problems[0]!.from).split('\n').length})`));
    else if (base && same(body, base.body)) done('Nothing has changed.');
    else setReview(body);
  };

  /** Loads what others have saved, to be merged with `mine`. */
  const showConflict = async (mine: ObjectNode) => {
    const rev = await currentRevision(db, id);
    setTheirs({ stored: rev === undefined ? undefined : await loadDocument(db, id), mine });
  };

  const save = async () => {
    const body = review!;
    setSaving(true);
    setError(undefined);
    try {
      const rev = await saveDocument(db, id, body, base);
      setReview(undefined);
      setOld(false);
      setBase({ id, rev, body, attachments: base?.attachments, conflicts: base?.conflicts ?? [], length: text.length });
      setText(pretty(body));
      done('Saved.');
      saved();
      onSaved(rev);
    } catch (caught) {
      setReview(undefined);
      if (isConflict(caught)) await showConflict(body).catch(setError);
      else setError(caught);
    } finally {
      setSaving(false);
    }
  };

  const takeMerged = (body: ObjectNode) => {
    setBase(theirs?.stored);
    setText(pretty(body));
    setTheirs(undefined);
    setOld(false);
    setReview(body);
  };

  if (!isWhole) {
    return (
      <div class="document-part">
        <div class="warning-box">
          The document has {bytes(original.length)}. You see its first {bytes(SHOWN_AT_ONCE)}; it is always saved whole.{' '}
          <button type="button" onClick={() => setWhole(true)}>
            Load all in the editor
          </button>
        </div>
        <pre class="partial" role="region" aria-label="Beginning of the document" tabIndex={0}>
          {original.slice(0, SHOWN_AT_ONCE)}…
        </pre>
      </div>
    );
  }
  return (
    <div class="document-editor">
      {isOld && (
        <div class="warning-box">
          Somebody else has saved this document meanwhile. Your text is kept.{' '}
          <button
            type="button"
            onClick={() => {
              const { body, problems } = checkBody(text, id, base?.rev);
              if (problems) setError(new Error(`Correct your text first: ${problems[0]!.message}`));
              else showConflict(body).catch(failed);
            }}
          >
            Compare and merge
          </button>
        </div>
      )}
      {error !== undefined && <ErrorBox error={error} />}
      {theirs ? (
        <ConflictMerge mine={theirs.mine} theirs={theirs.stored} base={base?.body} onBack={() => setTheirs(undefined)} onMerged={takeMerged} />
      ) : (
        <>
          <Editor
            value={text}
            onChange={setText}
            onRun={openReview}
            language="json"
            label="Document as JSON"
            readOnly={readOnly}
            lines={16}
            check={(typed) => (typed.length > CHECKED_AT_ONCE ? [] : (checkBody(typed, id, base?.rev).problems ?? []))}
          />
          {!readOnly && (
            <div class="toolbar">
              <button type="button" class="primary" disabled={base !== undefined && !isChanged} onClick={openReview} title="Ctrl+Enter">
                {base ? 'Review and save' : 'Create'}
              </button>
              {base && (
                <button type="button" disabled={!isChanged} onClick={() => setText(original)}>
                  Undo all changes
                </button>
              )}
              <span class="soft">{isChanged ? 'Not saved yet.' : ''}</span>
            </div>
          )}
        </>
      )}
      {review && (
        <Dialog title={base ? 'Save these changes?' : 'Create this document?'} wide onClose={() => setReview(undefined)}>
          <div class="dialog-body">
            <Diff label="Changes" old={base ? pretty(base.body) : ''} now={pretty(review)} />
          </div>
          <footer>
            <button type="button" onClick={() => setReview(undefined)}>
              Go on editing
            </button>
            <button type="button" class="primary" autofocus disabled={saving} onClick={save}>
              {saving ? 'Saving…' : 'Save'}
            </button>
          </footer>
        </Dialog>
      )}
    </div>
  );
}
