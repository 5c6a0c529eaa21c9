// Who may use a database: the object `_security`.

import { useState } from 'preact/hooks';
import { call, Failure, path } from '../../api/http.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { may } from '../../state/session.ts';
import { Field, Form, Shown } from '../../ui/basics.tsx';

interface Group {
  readonly names?: readonly string[];
  readonly roles?: readonly string[];
}

interface Security {
  readonly admins?: Group;
  readonly members?: Group;
  readonly [other: string]: unknown;
}

const GROUPS = [
  ['admins', 'Administrators', 'They change design documents, indexes and these settings.'],
  ['members', 'Members', 'They read and write documents.'],
] as const;

const PARTS = [
  ['names', 'Names'],
  ['roles', 'Roles'],
] as const;

const split = (text: string) => text.split(/[\s,]+/).filter((part) => part !== '');

export function SecurityForm({ db }: { db: string }) {
  const loaded = useLoad((signal) => call<Security>('GET', path(db, '_security'), { signal }), [db]);
  const [edited, setEdited] = useState<Record<string, string>>({});
  const readOnly = !may('changeSecurity', db) && !may('collMod', db);
  const save = async (old: Security) => {
    const group = (name: 'admins' | 'members'): Group => Object.fromEntries(PARTS.map(([part]) => [part, edited[`${name} ${part}`] === undefined ? (old[name]?.[part] ?? []) : split(edited[`${name} ${part}`]!)]));
    try {
      await call('PUT', path(db, '_security'), { json: { ...old, admins: group('admins'), members: group('members') } });
      done('Saved.');
      setEdited({});
      loaded.reload();
    } catch (error) {
      failed(error);
    }
  };
  if (loaded.error instanceof Failure && loaded.error.status === 403) return null;
  return (
    <section class="panel" aria-label="Who may use it">
      <h2>Who may use it</h2>
      <Shown of={loaded}>
        {(security) => (
          <Form onSubmit={() => save(security)} label="Who may use it">
            <p class="soft">Separate names by spaces. These are beside the roles that users have of the database, and hold for both faces.</p>
            <div class="split">
              {GROUPS.map(([group, title, hint]) => (
                <fieldset key={group}>
                  <legend>{title}</legend>
                  <p class="soft">{hint}</p>
                  {PARTS.map(([part, label]) => {
                    const key = `${group} ${part}`;
                    return (
                      <Field key={part} label={label}>
                        {(id) => (
                          <input
                            id={id}
                            readOnly={readOnly}
                            aria-label={`${title}: ${label}`}
                            value={edited[key] ?? (security[group]?.[part] ?? []).join(' ')}
                            onInput={(event) => setEdited({ ...edited, [key]: event.currentTarget.value })}
                          />
                        )}
                      </Field>
                    );
                  })}
                </fieldset>
              ))}
            </div>
            {!readOnly && <button disabled={Object.keys(edited).length === 0}>Save who may use it</button>}
          </Form>
        )}
      </Shown>
    </section>
  );
}
