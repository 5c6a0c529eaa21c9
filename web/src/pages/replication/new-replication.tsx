// The dialog that starts a replication.

import { useState } from 'preact/hooks';
import { databases } from '../../state/databases.ts';
import { done } from '../../state/notices.ts';
import { ErrorBox, Field, Form } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { isRemote, startReplication, type End } from './jobs.ts';

const NO_END: End = { address: '', user: '', password: '' };

export function NewReplicationDialog({ onClose }: { onClose: (started: boolean) => void }) {
  const [source, setSource] = useState(NO_END);
  const [target, setTarget] = useState(NO_END);
  const [continuous, setContinuous] = useState(false);
  const [createTarget, setCreateTarget] = useState(false);
  const [selector, setSelector] = useState('');
  const [error, setError] = useState<unknown>();
  const start = async () => {
    setError(undefined);
    try {
      await startReplication({ source, target, continuous, createTarget, selector });
      done('The replication starts.');
      onClose(true);
    } catch (caught) {
      setError(caught instanceof SyntaxError ? new Error(`The selector is not JSON: ${caught.message}`) : caught);
    }
  };
  return (
    <Dialog title="New replication" onClose={() => onClose(false)}>
      <Form onSubmit={start}>
        <div class="dialog-body">
          <datalist id="known-databases">
            {(databases.value ?? [])
              .filter(({ isView }) => !isView)
              .map(({ name }) => (
                <option key={name} value={name} />
              ))}
          </datalist>
          <EndFields label="Source" end={source} onChange={setSource} />
          <EndFields label="Target" end={target} onChange={setTarget} />
          <p class="toolbar">
            <label class="check">
              <input type="checkbox" checked={continuous} onChange={(event) => setContinuous(event.currentTarget.checked)} /> Continuous: follow the source
            </label>
            <label class="check">
              <input type="checkbox" checked={createTarget} onChange={(event) => setCreateTarget(event.currentTarget.checked)} /> Create the target
            </label>
          </p>
          <Field label="Only documents that match" hint='A Mango selector, such as { "type": "book" }. Empty: all documents.'>
            {(id) => <input id={id} class="mono" value={selector} onInput={(event) => setSelector(event.currentTarget.value)} />}
          </Field>
          {error !== undefined && <ErrorBox error={error} />}
        </div>
        <footer>
          <button type="button" onClick={() => onClose(false)}>
            Cancel
          </button>
          <button class="primary" disabled={source.address.trim() === '' || target.address.trim() === ''}>
            Start
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}

function EndFields({ label, end, onChange }: { label: string; end: End; onChange: (end: End) => void }) {
  return (
    <fieldset>
      <legend>{label}</legend>
      <Field label={`${label}: database or address`} hint="A database of this server, or an address such as https://db.example:6984/cars.">
        {(id) => <input id={id} class="mono" list="known-databases" required value={end.address} onInput={(event) => onChange({ ...end, address: event.currentTarget.value })} />}
      </Field>
      {isRemote(end.address) && (
        <div class="split">
          <Field label={`${label}: user`}>{(id) => <input id={id} autocomplete="off" value={end.user} onInput={(event) => onChange({ ...end, user: event.currentTarget.value })} />}</Field>
          <Field label={`${label}: password`}>
            {(id) => <input id={id} type="password" autocomplete="new-password" value={end.password} onInput={(event) => onChange({ ...end, password: event.currentTarget.value })} />}
          </Field>
        </div>
      )}
    </fieldset>
  );
}
