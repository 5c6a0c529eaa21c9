// Roles that people define, with their privileges.

import { useState } from 'preact/hooks';
import { array } from '../../json/node.ts';
import { ParseError, parseShell } from '../../json/parse.ts';
import { pretty } from '../../json/print.ts';
import { done, failed } from '../../state/notices.ts';
import { may } from '../../state/session.ts';
import { ErrorBox, Field, Form } from '../../ui/basics.tsx';
import { confirm, Dialog } from '../../ui/dialog.tsx';
import { Editor } from '../../ui/editor.tsx';
import { dropRole, writeRole, type Role, type RoleName } from './accounts.ts';
import { RolePicker } from './role-picker.tsx';

const EXAMPLE = '[\n  { resource: { db: "shop", collection: "orders" }, actions: ["find", "insert"] }\n]';

export function RolesSection({ roles, reload }: { roles: readonly Role[]; reload: () => void }) {
  const [edited, setEdited] = useState<Role | 'new'>();
  const remove = async ({ role, db }: Role) => {
    if (!(await confirm({ title: `Delete the role ${role}?`, text: 'Users who have it lose what it allows at once.', action: 'Delete', dangerous: true }))) return;
    try {
      await dropRole(role, db);
      done(`${role} is deleted.`);
      reload();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <section class="panel" aria-label="Roles">
      <div class="toolbar">
        <h2>Own roles</h2>
        <span class="soft">beside the built-in ones: read, readWrite, dbAdmin, root and others</span>
        <span class="space" />
        {may('createRole', 'admin/x') && (
          <button type="button" onClick={() => setEdited('new')}>
            New role
          </button>
        )}
      </div>
      {roles.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Roles in it</th>
              <th scope="col">Privileges</th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {roles.map((role) => (
              <tr key={`${role.db}.${role.role}`}>
                <th scope="row">{role.role}</th>
                <td>
                  {role.roles.map((each) => (
                    <span key={`${each.db}.${each.role}`} class="badge">
                      {each.role} on {each.db}
                    </span>
                  ))}
                </td>
                <td>
                  <pre>{role.privileges.length > 0 ? pretty(array(role.privileges)) : ''}</pre>
                </td>
                <td>
                  <span class="toolbar actions">
                    <button type="button" aria-label={`Edit ${role.role}`} onClick={() => setEdited(role)}>
                      Edit
                    </button>
                    <button type="button" aria-label={`Delete ${role.role}`} onClick={() => remove(role)}>
                      Delete
                    </button>
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {edited && (
        <RoleDialog
          role={edited === 'new' ? undefined : edited}
          own={roles}
          onClose={(isChanged) => {
            setEdited(undefined);
            if (isChanged) reload();
          }}
        />
      )}
    </section>
  );
}

function RoleDialog({ role, own, onClose }: { role: Role | undefined; own: readonly RoleName[]; onClose: (isChanged: boolean) => void }) {
  const [name, setName] = useState(role?.role ?? '');
  const [roles, setRoles] = useState<readonly RoleName[]>(role?.roles ?? []);
  const [privileges, setPrivileges] = useState(role ? pretty(array(role.privileges)) : EXAMPLE);
  const [error, setError] = useState<unknown>();
  const save = async () => {
    setError(undefined);
    try {
      await writeRole(!role, role?.role ?? name.trim(), role?.db ?? 'admin', parseShell(privileges), roles);
      done(role ? 'Saved. It holds at once.' : `The role ${name.trim()} is there.`);
      onClose(true);
    } catch (caught) {
      setError(caught instanceof ParseError ? new Error(`The privileges cannot be read: ${caught.message} (character ${caught.offset + 1}).`) : caught);
    }
  };
  return (
    <Dialog title={role ? `The role ${role.role}` : 'New role'} onClose={() => onClose(false)} wide>
      <Form onSubmit={save}>
        <div class="dialog-body">
          {!role && <Field label="Name">{(id) => <input id={id} autofocus required value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>}
          <h3>Privileges</h3>
          <Editor value={privileges} onChange={setPrivileges} language="shell" label="Privileges" lines={6} />
          <RolePicker roles={roles} onChange={setRoles} own={own} />
          {error !== undefined && <ErrorBox error={error} />}
        </div>
        <footer>
          <button type="button" onClick={() => onClose(false)}>
            Cancel
          </button>
          <button class="primary" disabled={!role && name.trim() === ''}>
            {role ? 'Save' : 'Create'}
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
