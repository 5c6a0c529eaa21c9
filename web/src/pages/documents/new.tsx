// A new document, empty or a duplicate of another one.

import { useState } from 'preact/hooks';
import { object } from '../../json/node.ts';
import { useLoad } from '../../state/load.ts';
import { go, place } from '../../state/router.ts';
import { Field, Shown } from '../../ui/basics.tsx';
import { DocumentEditor } from './editor.tsx';
import { loadDocument, newId } from './stored.ts';

export function NewDocument({ db, from }: { db: string; from: string | undefined }) {
  const wanted = place.value.query.get('id') ?? undefined;
  const begun = useLoad(
    async (signal) => {
      const [id, original] = await Promise.all([wanted ?? newId(), from === undefined ? undefined : loadDocument(db, from, signal)]);
      return { id, first: original?.body ?? object([]) };
    },
    [db, from, wanted],
  );
  return (
    <>
      <h2>{from === undefined ? 'New document' : `Duplicate of ${from}`}</h2>
      <Shown of={begun}>{({ id, first }) => <NewForm db={db} generated={id} first={first} />}</Shown>
    </>
  );
}

function NewForm({ db, generated, first }: { db: string; generated: string; first: ReturnType<typeof object> }) {
  const [id, setId] = useState(generated);
  return (
    <>
      <Field
        label="Id"
        hint={
          <>
            24 hexadecimal digits are an ObjectId. Ids that are not texts are a tilde and Extended JSON: <code>{'~{"$numberInt":"7"}'}</code>
          </>
        }
      >
        {(name) => <input id={name} class="mono" required value={id} onInput={(event) => setId(event.currentTarget.value)} />}
      </Field>
      <DocumentEditor db={db} id={id} base={undefined} first={first} onSaved={() => go(['db', db, 'doc', id])} />
    </>
  );
}
