// Which fields the table shows as columns.

import { useState } from 'preact/hooks';
import { at, type Node } from '../../json/node.ts';
import { typeName } from '../../json/print.ts';
import { remembered } from '../../state/remembered.ts';
import { Field, Form } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import type { DocumentRow } from './rows.ts';

/** The columns of a table whose columns nobody has chosen. */
const FIRST_COLUMNS = 8;

/** Documents in which fields are looked for. */
const SAMPLE = 300;

/** The remembered columns of a database. */
export const chosenColumns = (db: string) => remembered<readonly string[] | null>(`columns.${db}`, null);

/** The fields of the loaded documents, the most frequent first. Fields of objects have dotted names. */
export function knownFields(rows: readonly DocumentRow[]): string[] {
  const counts = new Map<string, number>();
  for (const { doc } of rows.slice(0, SAMPLE)) {
    for (const [name, value] of doc?.entries ?? []) {
      if (name === '_id' || name === '_rev' || name === '_attachments' || name === '_conflicts') continue;
      counts.set(name, (counts.get(name) ?? 0) + 1);
      if (value.kind !== 'object' || typeName(value) !== 'object') continue;
      for (const [inner] of value.entries) counts.set(`${name}.${inner}`, (counts.get(`${name}.${inner}`) ?? 0) + 0.5);
    }
  }
  // Fields that are equally frequent stay in the order of the documents.
  return [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

/** The columns of a database that has none remembered. */
export function firstColumns(fields: readonly string[]): string[] {
  return fields.filter((name) => !name.includes('.')).slice(0, FIRST_COLUMNS);
}

/** What a document has in a column. A field whose name contains a dot comes before a path. */
export function cell(doc: Node | undefined, column: string): Node | undefined {
  if (doc?.kind !== 'object') return undefined;
  return doc.entries.find(([name]) => name === column)?.[1] ?? at(doc, column);
}

interface ChooserProps {
  fields: readonly string[];
  columns: readonly string[];
  onChoose: (columns: readonly string[] | null) => void;
  onClose: () => void;
}

/** Chooses and orders columns. */
export function ColumnChooser({ fields, columns, onChoose, onClose }: ChooserProps) {
  const [added, setAdded] = useState('');
  const others = fields.filter((name) => !columns.includes(name));
  const move = (index: number, by: number) => {
    const order = [...columns];
    const [name] = order.splice(index, 1);
    order.splice(index + by, 0, name!);
    onChoose(order);
  };
  return (
    <Dialog title="Columns" onClose={onClose}>
      <div class="dialog-body column-chooser">
        <h3>Shown, from left to right</h3>
        <ul>
          {columns.map((name, index) => (
            <li key={name}>
              <label class="check">
                <input type="checkbox" checked onChange={() => onChoose(columns.filter((other) => other !== name))} />
                <code>{name}</code>
              </label>
              <span class="space" />
              <button type="button" class="icon" aria-label={`Move ${name} to the left`} disabled={index === 0} onClick={() => move(index, -1)}>
                ↑
              </button>
              <button type="button" class="icon" aria-label={`Move ${name} to the right`} disabled={index === columns.length - 1} onClick={() => move(index, 1)}>
                ↓
              </button>
            </li>
          ))}
        </ul>
        {columns.length === 0 && <p class="soft">Only the ids are shown.</p>}
        {others.length > 0 && <h3>Not shown</h3>}
        <ul>
          {others.map((name) => (
            <li key={name}>
              <label class="check">
                <input type="checkbox" checked={false} onChange={() => onChoose([...columns, name])} />
                <code>{name}</code>
              </label>
            </li>
          ))}
        </ul>
        <Form
          onSubmit={() => {
            if (added.trim() !== '' && !columns.includes(added.trim())) onChoose([...columns, added.trim()]);
            setAdded('');
          }}
        >
          <Field label="Another field" hint="A path with dots reaches into objects and arrays: address.city, tags.0">
            {(id) => (
              <div class="toolbar">
                <input id={id} class="grow" value={added} onInput={(event) => setAdded(event.currentTarget.value)} />
                <button>Add</button>
              </div>
            )}
          </Field>
        </Form>
      </div>
      <footer>
        <button type="button" onClick={() => onChoose(null)}>
          As at first
        </button>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}
