// The server's configuration, as `_node/_local/_config` has it.

import { useState } from 'preact/hooks';
import { call, path, send } from '../../api/http.ts';
import { useLoad } from '../../state/load.ts';
import { done } from '../../state/notices.ts';
import { ErrorBox, Field, Form, Shown } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';

type Config = Readonly<Record<string, Readonly<Record<string, string>>>>;

interface Edited {
  readonly section: string;
  readonly key: string;
  readonly value: string;
  readonly isNew: boolean;
}

const CONFIG = ['_node', '_local', '_config'];

export function SettingsPage() {
  const [find, setFind] = useState('');
  const [edited, setEdited] = useState<Edited>();
  const loaded = useLoad((signal) => call<Config>('GET', path(...CONFIG), { signal }), []);
  const wanted = find.trim().toLowerCase();
  const close = (isChanged: boolean) => {
    setEdited(undefined);
    if (isChanged) loaded.reload();
  };
  return (
    <div class="page audit">
      <div class="toolbar">
        <span class="soft">Changes take effect at once and survive restarts. What a flag or the configuration file sets is changed there.</span>
        <span class="space" />
        <Field label="Find">{(id) => <input id={id} type="search" value={find} onInput={(event) => setFind(event.currentTarget.value)} />}</Field>
        <button type="button" onClick={() => setEdited({ section: '', key: '', value: '', isNew: true })}>
          New setting
        </button>
      </div>
      <Shown of={loaded}>
        {(config) => (
          <>
            {Object.entries(config)
              .map(([section, keys]) => [section, Object.entries(keys).filter(([key]) => `${section}/${key}`.toLowerCase().includes(wanted))] as const)
              .filter(([, keys]) => keys.length > 0)
              .map(([section, keys]) => (
                <section key={section} class="panel" aria-label={`Section ${section}`}>
                  <h2 class="mono">{section}</h2>
                  <table class="settings-table">
                    <tbody>
                      {keys.map(([key, value]) => (
                        <tr key={key}>
                          <th scope="row" class="mono">
                            {key}
                          </th>
                          <td class="mono">{section === 'admins' ? '(a hashed password)' : value}</td>
                          <td class="number">
                            <button type="button" class="plain" aria-label={`Edit ${section}/${key}`} onClick={() => setEdited({ section, key, value: section === 'admins' ? '' : value, isNew: false })}>
                              Edit
                            </button>
                          </td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </section>
              ))}
          </>
        )}
      </Shown>
      {edited && <EditDialog edited={edited} onClose={close} />}
    </div>
  );
}

function EditDialog({ edited, onClose }: { edited: Edited; onClose: (isChanged: boolean) => void }) {
  const [section, setSection] = useState(edited.section);
  const [key, setKey] = useState(edited.key);
  const [value, setValue] = useState(edited.value);
  const [error, setError] = useState<unknown>();
  const attempt = async (work: () => Promise<unknown>, said: string) => {
    setError(undefined);
    try {
      await work();
      done(said);
      onClose(true);
    } catch (caught) {
      setError(caught);
    }
  };
  const address = path(...CONFIG, section.trim(), key.trim());
  return (
    <Dialog title={edited.isNew ? 'New setting' : `${edited.section}/${edited.key}`} onClose={() => onClose(false)}>
      <Form onSubmit={() => attempt(() => send('PUT', address, { json: value === '' ? '""' : JSON.stringify(value) }), `${section}/${key} is set.`)}>
        <div class="dialog-body">
          {edited.isNew && (
            <>
              <Field label="Section">{(id) => <input id={id} class="mono" required value={section} onInput={(event) => setSection(event.currentTarget.value)} />}</Field>
              <Field label="Key">{(id) => <input id={id} class="mono" required value={key} onInput={(event) => setKey(event.currentTarget.value)} />}</Field>
            </>
          )}
          <Field label="Value">
            {(id) =>
              section === 'admins' ? (
                <input id={id} type="password" autocomplete="new-password" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
              ) : (
                <input id={id} class="mono" autofocus value={value} onInput={(event) => setValue(event.currentTarget.value)} />
              )
            }
          </Field>
          {error !== undefined && <ErrorBox error={error} />}
        </div>
        <footer>
          {!edited.isNew && (
            <button type="button" onClick={() => attempt(() => send('DELETE', address), `${section}/${key} has its default again.`)}>
              {section === 'admins' ? 'Delete' : 'Use the default'}
            </button>
          )}
          <span class="space" />
          <button type="button" onClick={() => onClose(false)}>
            Cancel
          </button>
          <button class="primary" disabled={section.trim() === '' || key.trim() === ''}>
            Save
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
