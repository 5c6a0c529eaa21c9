// The design documents of a database.

import { useState } from 'preact/hooks';
import { call, path } from '../../api/http.ts';
import { object, string } from '../../json/node.ts';
import { useLoad } from '../../state/load.ts';
import { failed } from '../../state/notices.ts';
import { go, link } from '../../state/router.ts';
import { may } from '../../state/session.ts';
import { Empty, Field, Form, Shown } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { saveDocument } from '../documents/stored.ts';
import type { DatabasePageProps } from '../registry.ts';
import { DesignDocument } from './document.tsx';
import { TEMPLATES, withSource } from './functions.ts';

interface Row {
  readonly id: string;
}

export function DesignPage({ db, rest }: DatabasePageProps) {
  const name = rest.join('/');
  const [creating, setCreating] = useState(false);
  const list = useLoad(async (signal) => (await call<{ rows: Row[] }>('GET', path(db, '_design_docs'), { signal })).rows.map(({ id }) => id.slice('_design/'.length)), [db]);
  const mayDesign = may('collMod', db);
  return (
    <div class="page design">
      <div class="toolbar">
        <nav class="toolbar design-list" aria-label="Design documents">
          {list.value?.map((each) => (
            <a key={each} class="button" aria-current={each === name ? 'page' : undefined} href={link(['db', db, 'design', each])}>
              {each}
            </a>
          ))}
        </nav>
        <span class="space" />
        {mayDesign && (
          <button type="button" class={list.value?.length === 0 ? 'primary' : undefined} onClick={() => setCreating(true)}>
            New design document
          </button>
        )}
      </div>
      {name === '' ? (
        <Shown of={list}>
          {(names) =>
            names.length === 0 ? (
              <Empty title="No design documents">
                <p class="soft">A design document holds views: functions that index documents by any key, and reduce them.</p>
              </Empty>
            ) : (
              <p class="soft">Choose a design document.</p>
            )
          }
        </Shown>
      ) : (
        <DesignDocument
          key={name}
          db={db}
          name={name}
          onGone={() => {
            list.reload();
            go(['db', db, 'design']);
          }}
        />
      )}
      {creating && (
        <NewDesign
          db={db}
          onClose={(made) => {
            setCreating(false);
            if (made === undefined) return;
            list.reload();
            go(['db', db, 'design', made]);
          }}
        />
      )}
    </div>
  );
}

function NewDesign({ db, onClose }: { db: string; onClose: (made?: string) => void }) {
  const [name, setName] = useState('');
  const [view, setView] = useState('all');
  const create = async () => {
    const body = withSource(object([['language', string('javascript')]]), { group: 'views', name: view.trim() }, TEMPLATES.views);
    try {
      await saveDocument(db, `_design/${name.trim()}`, body);
      onClose(name.trim());
    } catch (error) {
      failed(error);
    }
  };
  return (
    <Dialog title="New design document" onClose={() => onClose()}>
      <Form onSubmit={create}>
        <div class="dialog-body">
          <Field label="Name of the design document">{(id) => <input id={id} class="mono" autofocus required value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
          <Field label="Name of its first view">{(id) => <input id={id} class="mono" required value={view} onInput={(event) => setView(event.currentTarget.value)} />}</Field>
        </div>
        <footer>
          <button type="button" onClick={() => onClose()}>
            Cancel
          </button>
          <button class="primary" disabled={name.trim() === '' || view.trim() === ''}>
            Create
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
