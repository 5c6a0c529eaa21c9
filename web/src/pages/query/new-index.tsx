// The dialog that creates an index.

import { useState } from 'preact/hooks';
import { command, on } from '../../api/command.ts';
import { array, boolean, number, object, string, type Entry, type ObjectNode } from '../../json/node.ts';
import { ParseError, parseShell } from '../../json/parse.ts';
import { useLoad } from '../../state/load.ts';
import { done } from '../../state/notices.ts';
import { ErrorBox, Field, Form } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { sampledFields } from './sample.ts';

const DIRECTIONS = ['1', '-1', 'hashed', 'text'] as const;

interface Key {
  readonly field: string;
  readonly direction: (typeof DIRECTIONS)[number];
}

export function NewIndexDialog({ db, onClose }: { db: string; onClose: (created: boolean) => void }) {
  const [keys, setKeys] = useState<readonly Key[]>([{ field: '', direction: '1' }]);
  const [unique, setUnique] = useState(false);
  const [sparse, setSparse] = useState(false);
  const [seconds, setSeconds] = useState('');
  const [partial, setPartial] = useState('');
  const [name, setName] = useState('');
  const [error, setError] = useState<unknown>();
  const fields = useLoad((signal) => sampledFields(db, signal), [db]);
  const change = (index: number, key: Key) => setKeys(keys.map((each, at) => (at === index ? key : each)));
  const given = keys.filter(({ field }) => field.trim() !== '');
  const ownName = given.map(({ field, direction }) => `${field.trim()}_${direction}`).join('_');

  const create = async () => {
    setError(undefined);
    try {
      const key = object(given.map(({ field, direction }): Entry => [field.trim(), direction === '1' || direction === '-1' ? number(direction) : string(direction)]));
      const entries: Entry[] = [['key', key], ['name', string(name.trim() || ownName)]];
      if (unique) entries.push(['unique', boolean(true)]);
      if (sparse) entries.push(['sparse', boolean(true)]);
      if (seconds.trim() !== '') entries.push(['expireAfterSeconds', number(Number(seconds))]);
      if (partial.trim() !== '') entries.push(['partialFilterExpression', parseFilter(partial)]);
      await command(...on(db, 'createIndexes', [['indexes', array([object(entries)])]]));
      done(`The index ${name.trim() || ownName} is ready.`);
      onClose(true);
    } catch (caught) {
      setError(caught);
    }
  };

  return (
    <Dialog title="New index" onClose={() => onClose(false)}>
      <Form onSubmit={create}>
        <div class="dialog-body">
          <datalist id="known-fields">
            {(fields.value ?? []).map(({ path }) => (
              <option key={path} value={path} />
            ))}
          </datalist>
          <fieldset>
            <legend>Keys, the most important first</legend>
            {keys.map((key, index) => (
              <div key={index} class="toolbar index-key">
                <input
                  aria-label={`Field ${index + 1}`}
                  class="grow mono"
                  list="known-fields"
                  value={key.field}
                  onInput={(event) => change(index, { ...key, field: event.currentTarget.value })}
                />
                <select aria-label={`Order of field ${index + 1}`} value={key.direction} onChange={(event) => change(index, { ...key, direction: event.currentTarget.value as Key['direction'] })}>
                  <option value="1">ascending</option>
                  <option value="-1">descending</option>
                  <option value="hashed">hashed</option>
                  <option value="text">text</option>
                </select>
                {keys.length > 1 && (
                  <button type="button" class="icon" aria-label={`Remove field ${index + 1}`} onClick={() => setKeys(keys.filter((_, at) => at !== index))}>
                    ×
                  </button>
                )}
              </div>
            ))}
            <button type="button" onClick={() => setKeys([...keys, { field: '', direction: '1' }])}>
              Add a field
            </button>
          </fieldset>
          <p class="toolbar">
            <label class="check">
              <input type="checkbox" checked={unique} onChange={(event) => setUnique(event.currentTarget.checked)} /> Unique
            </label>
            <label class="check">
              <input type="checkbox" checked={sparse} onChange={(event) => setSparse(event.currentTarget.checked)} /> Sparse
            </label>
          </p>
          <Field label="Only documents that match" hint="A filter, such as { year: { $gt: 1970 } }. Empty: all documents.">
            {(id) => <input id={id} class="mono" value={partial} onInput={(event) => setPartial(event.currentTarget.value)} />}
          </Field>
          <Field label="Delete documents after" hint="Seconds after the date in the field. Empty: never.">
            {(id) => <input id={id} inputMode="numeric" value={seconds} onInput={(event) => setSeconds(event.currentTarget.value)} />}
          </Field>
          <Field label="Name">{(id) => <input id={id} class="mono" placeholder={ownName} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
          {error !== undefined && <ErrorBox error={error} />}
        </div>
        <footer>
          <button type="button" onClick={() => onClose(false)}>
            Cancel
          </button>
          <button class="primary" disabled={given.length === 0}>
            Create
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}

function parseFilter(text: string): ObjectNode {
  try {
    const node = parseShell(text);
    if (node.kind === 'object') return node;
  } catch (error) {
    if (error instanceof ParseError) throw new Error(`The filter cannot be read: ${error.message} (character ${error.offset + 1}).`);
    throw error;
  }
  throw new Error('The filter is an object, such as { year: { $gt: 1970 } }.');
}
