// Renames and deletes a database.

import { useState } from 'preact/hooks';
import { command } from '../../api/command.ts';
import { call, path } from '../../api/http.ts';
import { namespace } from '../../api/names.ts';
import { loadDatabases } from '../../state/databases.ts';
import { done, failed } from '../../state/notices.ts';
import { go } from '../../state/router.ts';
import { Field, Form } from '../../ui/basics.tsx';

/** Gives the database another name. */
export function Rename({ db }: { db: string }) {
  const [name, setName] = useState('');
  const rename = async () => {
    const [from, to] = [namespace(db), namespace(name.trim())];
    try {
      await command('admin', [
        ['renameCollection', `${from.database}.${from.collection}`],
        ['to', `${to.database}.${to.collection}`],
      ]);
      await loadDatabases();
      done(`${db} is ${name.trim()} now.`);
      go(['db', name.trim(), 'settings']);
    } catch (error) {
      failed(error);
    }
  };
  return (
    <section class="panel" aria-label="Rename">
      <h2>Rename</h2>
      <Form onSubmit={rename} label="Rename">
        <Field label="New name">{(id) => <input id={id} class="mono" value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        <button disabled={name.trim() === '' || name.trim() === db}>Rename</button>
      </Form>
    </section>
  );
}

/** Deletes the database when its name has been typed. */
export function Removal({ db, onGone }: { db: string; onGone: () => void }) {
  const [typed, setTyped] = useState('');
  const remove = async () => {
    try {
      await call('DELETE', path(db));
      done(`${db} is deleted.`);
      go([]);
      onGone();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <section class="panel" aria-label="Delete">
      <h2>Delete</h2>
      <Form onSubmit={remove} label="Delete">
        <Field label="The name of the database" hint="Type it to delete the database with all documents, indexes and views. That cannot be undone.">
          {(id) => <input id={id} class="mono" autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />}
        </Field>
        <button class="danger" disabled={typed !== db}>
          Delete the database
        </button>
      </Form>
    </section>
  );
}
