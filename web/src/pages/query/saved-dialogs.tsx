// The dialogs of the history and of saved queries.

import { useState } from 'preact/hooks';
import { Failure } from '../../api/http.ts';
import { done, failed } from '../../state/notices.ts';
import { useLoad } from '../../state/load.ts';
import { may } from '../../state/session.ts';
import { Field, Form, Shown } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { KINDS, type QueryText } from './request.ts';
import { deleteSaved, historyOf, SAVED, savedQueries, saveQuery } from './saved.ts';

const TEXT_LENGTH = 200;

interface ListProps {
  db: string;
  onChoose: (query: QueryText) => void;
  onClose: () => void;
}

function kindLabel(query: QueryText): string {
  return KINDS.find(([kind]) => kind === query.kind)?.[1] ?? query.kind;
}

function QueryLine({ query, title, onChoose }: { query: QueryText; title: string; onChoose: () => void }) {
  return (
    <button type="button" class="plain query-line" onClick={onChoose}>
      <span>
        <strong>{title}</strong> <span class="badge">{kindLabel(query)}</span>
      </span>
      <code>{query.text.replace(/\s+/g, ' ').slice(0, TEXT_LENGTH)}</code>
    </button>
  );
}

/** The last queries of this browser. */
export function HistoryDialog({ db, onChoose, onClose }: ListProps) {
  const entries = historyOf(db);
  return (
    <Dialog title="History of this browser" onClose={onClose}>
      <div class="dialog-body query-lines">
        {entries.length === 0 && <p class="soft">Queries appear here when they have run.</p>}
        {entries.map((entry) => (
          <QueryLine key={entry.at} query={entry} title={new Date(entry.at).toLocaleString()} onChoose={() => onChoose(entry)} />
        ))}
      </div>
    </Dialog>
  );
}

/** The queries that are saved as documents. */
export function SavedDialog({ db, onChoose, onClose, onSave }: ListProps & { onSave: () => void }) {
  const loaded = useLoad(async (signal) => {
    try {
      return await savedQueries(db, signal);
    } catch (error) {
      // Without a saved query there is no database of them, and a user of few rights may not look for it.
      if (error instanceof Failure && [403, 404].includes(error.status)) return [];
      throw error;
    }
  }, [db]);
  const remove = (id: string) => deleteSaved(id).then(() => (done('Deleted.'), loaded.reload()), failed);
  return (
    <Dialog title="Saved queries" onClose={onClose}>
      <div class="dialog-body query-lines">
        <Shown of={loaded}>
          {(queries) => (
            <>
              {queries.length === 0 && <p class="soft">None yet.</p>}
              {queries.map((query) => (
                <div key={query._id} class="toolbar">
                  <QueryLine query={query} title={query.name} onChoose={() => onChoose(query)} />
                  {may('remove', SAVED) && (
                    <button type="button" class="icon" aria-label={`Delete ${query.name}`} onClick={() => remove(query._id)}>
                      ×
                    </button>
                  )}
                </div>
              ))}
            </>
          )}
        </Shown>
      </div>
      <footer>
        <span class="soft">Saved queries are documents of {SAVED}: replicate it to share them.</span>
        <span class="space" />
        {may('insert', SAVED) && (
          <button type="button" class="primary" onClick={onSave}>
            Save this query…
          </button>
        )}
      </footer>
    </Dialog>
  );
}

/** Asks for the name of a query and saves it. */
export function SaveDialog({ db, query, onClose }: { db: string; query: QueryText; onClose: () => void }) {
  const [name, setName] = useState('');
  const save = async () => {
    try {
      await saveQuery(db, name.trim(), query);
      done(`Saved as ${name.trim()}.`);
      onClose();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <Dialog title="Save this query" onClose={onClose}>
      <Form onSubmit={save}>
        <div class="dialog-body">
          <Field label="Name">{(id) => <input id={id} autofocus required value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button class="primary" disabled={name.trim() === ''}>
            Save
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
