// One design document: its functions, and the editor of one of them.

import { useEffect, useRef, useState } from 'preact/hooks';
import { same, type ObjectNode } from '../../json/node.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { link, place, setQuery } from '../../state/router.ts';
import { may } from '../../state/session.ts';
import { useUnsaved } from '../../state/unsaved.ts';
import { Empty, Field, Form, Shown } from '../../ui/basics.tsx';
import { confirm, Dialog } from '../../ui/dialog.tsx';
import { deleteDocument, isConflict, loadDocument, saveDocument, type Stored } from '../documents/stored.ts';
import { FunctionEditor } from './function-editor.tsx';
import { functionOf, functionsOf, GROUPS, keyOf, SINGLE, TEMPLATES, withoutFunction, withSource, type FunctionName } from './functions.ts';
import { IndexState } from './index-state.tsx';

interface Props {
  db: string;
  name: string;
  onGone: () => void;
}

export function DesignDocument({ db, name, onGone }: Props) {
  const id = `_design/${name}`;
  const loaded = useLoad((signal) => loadDocument(db, id, signal), [db, id]);
  const first = useRef<Stored>(undefined);
  first.current ??= loaded.value;
  // Once it is shown, a failure to load it again must not take away what is being written.
  if (!first.current) return <Shown of={loaded}>{() => null}</Shown>;
  return <Design db={db} name={name} first={first.current} latest={loaded.value} onGone={onGone} />;
}

function Design({ db, name, first, latest, onGone }: Props & { first: Stored; latest: Stored | undefined }) {
  const [stored, setStored] = useState(first);
  const [body, setBody] = useState<ObjectNode>(first.body);
  const [isSaving, setSaving] = useState(false);
  const [adding, setAdding] = useState(false);
  const readOnly = !may('collMod', db);
  const functions = functionsOf(body);
  const wanted = place.value.query.get('function');
  const chosen = functions.find((each) => keyOf(each) === wanted) ?? functions[0];
  const isChanged = !same(body, stored.body);
  const release = useUnsaved(isChanged, 'The design document');
  useEffect(() => {
    if (!latest || isChanged) return;
    setStored(latest);
    setBody(latest.body);
  }, [latest]);

  const save = async () => {
    setSaving(true);
    try {
      const rev = await saveDocument(db, stored.id, body, { rev: stored.rev, attachments: stored.attachments });
      setStored({ ...stored, rev, body });
      done('Saved. Views are built when they are next read.');
    } catch (error) {
      failed(isConflict(error) ? 'Somebody else has saved this design document meanwhile. Copy your functions, then reload the page.' : error);
    } finally {
      setSaving(false);
    }
  };
  const remove = async () => {
    if (!(await confirm({ title: `Delete ${stored.id}?`, text: 'Its views and their indexes are deleted.', action: 'Delete', dangerous: true }))) return;
    try {
      await deleteDocument(db, stored.id, stored.rev);
      release();
      done('Deleted.');
      onGone();
    } catch (error) {
      failed(error);
    }
  };
  const drop = async (each: FunctionName) => {
    if (await confirm({ title: `Remove ${keyOf(each)}?`, text: 'It is gone when the design document is saved.', action: 'Remove', dangerous: true })) setBody(withoutFunction(body, each));
  };

  return (
    <>
      <div class="toolbar">
        <a class="button" href={link(['db', db, 'doc', stored.id])}>
          As a document
        </a>
        <span class="space" />
        {!readOnly && (
          <>
            <button type="button" onClick={() => setAdding(true)}>
              Add a function
            </button>
            <button type="button" onClick={remove}>
              Delete
            </button>
            <button type="button" disabled={!isChanged} onClick={() => setBody(stored.body)}>
              Undo all changes
            </button>
            <button type="button" class="primary" disabled={!isChanged || isSaving} onClick={save}>
              Save
            </button>
          </>
        )}
      </div>
      <IndexState db={db} name={name} views={functions.filter(({ group }) => group === 'views').map((each) => each.name)} />
      {functions.length === 0 ? (
        <Empty title="No functions">
          <p class="soft">Mango indexes and other data of this design document are shown as a document.</p>
        </Empty>
      ) : (
        <div class="design-parts">
          <ul class="function-list" aria-label="Functions">
            {functions.map((each) => (
              <li key={keyOf(each)}>
                <button type="button" class="plain" aria-pressed={each === chosen} onClick={() => setQuery({ function: keyOf(each) })}>
                  {each.group === SINGLE ? 'Validation' : each.name} <span class="soft">{each.group === SINGLE ? '' : GROUPS.find(([group]) => group === each.group)![1]}</span>
                </button>
                {!readOnly && (
                  <button type="button" class="icon" aria-label={`Remove ${keyOf(each)}`} onClick={() => drop(each)}>
                    ×
                  </button>
                )}
              </li>
            ))}
          </ul>
          {chosen && <FunctionEditor key={keyOf(chosen)} db={db} design={name} body={body} edited={chosen} readOnly={readOnly} isChanged={isChanged} onChange={setBody} />}
        </div>
      )}
      {adding && (
        <AddFunction
          body={body}
          onClose={(added) => {
            setAdding(false);
            if (!added) return;
            setBody(withSource(body, added, TEMPLATES[added.group]));
            setQuery({ function: keyOf(added) });
          }}
        />
      )}
    </>
  );
}

function AddFunction({ body, onClose }: { body: ObjectNode; onClose: (added?: FunctionName) => void }) {
  const [group, setGroup] = useState<FunctionName['group']>('views');
  const [name, setName] = useState('');
  const known = new Set(functionsOf(body).map(keyOf));
  const added = functionOf(group === SINGLE ? SINGLE : `${group}/${name.trim()}`)!;
  const exists = known.has(keyOf(added));
  return (
    <Dialog title="Add a function" onClose={() => onClose()}>
      <Form onSubmit={() => onClose(added)}>
        <div class="dialog-body">
          <Field label="Kind">
            {(id) => (
              <select id={id} value={group} onChange={(event) => setGroup(event.currentTarget.value as FunctionName['group'])}>
                {GROUPS.map(([each, label]) => (
                  <option key={each} value={each}>
                    {label}
                  </option>
                ))}
                <option value={SINGLE}>Validation of writes</option>
              </select>
            )}
          </Field>
          {group !== SINGLE && (
            <Field label="Name" hint={exists ? 'There is a function of this name.' : undefined}>
              {(id) => <input id={id} class="mono" required value={name} onInput={(event) => setName(event.currentTarget.value)} />}
            </Field>
          )}
        </div>
        <footer>
          <button type="button" onClick={() => onClose()}>
            Cancel
          </button>
          <button class="primary" disabled={exists || (group !== SINGLE && name.trim() === '')}>
            Add
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
