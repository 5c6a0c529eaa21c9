// Creates a database.

import { useState } from 'preact/hooks';
import { command } from '../../api/command.ts';
import { call, path } from '../../api/http.ts';
import { namespace } from '../../api/names.ts';
import { loadDatabases } from '../../state/databases.ts';
import { go } from '../../state/router.ts';
import { ErrorBox, Field, Form, Segments } from '../../ui/basics.tsx';

type Kind = 'plain' | 'partitioned' | 'capped';

export function NewDatabasePage() {
  const [name, setName] = useState('');
  const [kind, setKind] = useState<Kind>('plain');
  const [size, setSize] = useState('16');
  const [error, setError] = useState<unknown>();
  const { database, collection } = namespace(name.trim());
  const create = async () => {
    setError(undefined);
    try {
      if (kind === 'capped') await command(database, [['create', collection], ['capped', true], ['size', Math.round(Number(size) * 1_000_000)]]);
      else await call('PUT', path(name.trim()), { query: { partitioned: kind === 'partitioned' || undefined } });
      await loadDatabases();
      go(['db', name.trim(), 'documents']);
    } catch (caught) {
      setError(caught);
    }
  };
  return (
    <div class="page">
      <h1>New database</h1>
      <div class="panel narrow">
        <Form onSubmit={create} label="New database">
          <Field label="Name" hint={name.trim() === '' ? 'Such as cars, or shop/orders.' : <>For MongoDB’s drivers: collection {collection} of the database {database}.</>}>
            {(id) => <input id={id} class="mono" autofocus required value={name} onInput={(event) => setName(event.currentTarget.value)} />}
          </Field>
          <div class="field">
            <Segments
              label="Kind"
              options={[
                ['plain', 'Plain'],
                ['partitioned', 'Partitioned'],
                ['capped', 'Capped'],
              ]}
              value={kind}
              onChange={setKind}
            />
            <small>
              {kind === 'plain' && 'What most databases are.'}
              {kind === 'partitioned' && 'Ids have the form partition:id, and queries can ask one partition, as in CouchDB.'}
              {kind === 'capped' && 'The oldest documents are deleted when the size is reached, as in MongoDB.'}
            </small>
          </div>
          {kind === 'capped' && <Field label="Size in megabytes">{(id) => <input id={id} inputMode="decimal" required value={size} onInput={(event) => setSize(event.currentTarget.value)} />}</Field>}
          {error !== undefined && <ErrorBox error={error} />}
          <button class="primary" disabled={name.trim() === ''}>
            Create
          </button>
        </Form>
      </div>
    </div>
  );
}
