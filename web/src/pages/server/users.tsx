// Users and roles.

import { useState } from 'preact/hooks';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { loadSession, may, session } from '../../state/session.ts';
import { ErrorBox, Shown } from '../../ui/basics.tsx';
import { confirm } from '../../ui/dialog.tsx';
import { dropUser, loadRoles, loadUsers, type RoleName, type User } from './accounts.ts';
import { PasswordForm } from './password.tsx';
import { RolesSection } from './roles.tsx';
import { UserDialog } from './user-dialog.tsx';

export function UsersPage() {
  const now = session.value;
  const mayView = may('viewUser', 'admin/system') || may('viewUser');
  return (
    <div class="page users">
      {now?.isOpen && (
        <p class="warning-box">The server has no users: everybody on this machine may do everything, and it can be reached from this machine alone. Create a user with the role root to change that.</p>
      )}
      {now?.user && <PasswordForm user={now.user} />}
      {now?.isOpen || mayView ? <Accounts /> : <p class="soft">Other users are shown to those who have the right “viewUser”.</p>}
    </div>
  );
}

function Accounts() {
  const users = useLoad(loadUsers, []);
  const roles = useLoad((signal) => loadRoles('admin', false, signal), []);
  const [edited, setEdited] = useState<User | 'new'>();
  const own: RoleName[] = (roles.value ?? []).map(({ role, db }) => ({ role, db }));
  const remove = async ({ user, db }: User) => {
    if (!(await confirm({ title: `Delete the user ${user}?`, text: 'The connections that the user has open lose their rights at once.', action: 'Delete', dangerous: true }))) return;
    try {
      await dropUser(user, db);
      done(`${user} is deleted.`);
      users.reload();
    } catch (error) {
      failed(error);
    }
  };
  const close = (isChanged: boolean) => {
    setEdited(undefined);
    if (!isChanged) return;
    // The first user closes an open server: the page then asks for a sign-in.
    if (session.value?.isOpen) loadSession().catch(failed);
    users.reload();
  };
  return (
    <>
      <section class="panel" aria-label="Users">
        <div class="toolbar">
          <h2>Users</h2>
          <span class="space" />
          {may('createUser', 'admin/x') && (
            <button type="button" class="primary" onClick={() => setEdited('new')}>
              New user
            </button>
          )}
        </div>
        <Shown of={users}>
          {(found) =>
            found.length === 0 ? (
              <p class="soft">None.</p>
            ) : (
              <table>
                <thead>
                  <tr>
                    <th scope="col">Name</th>
                    <th scope="col">Defined in</th>
                    <th scope="col">Roles</th>
                    <th scope="col">
                      <span class="visually-hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((user) => (
                    <tr key={`${user.db}.${user.user}`}>
                      <th scope="row">{user.user}</th>
                      <td class="mono">{user.db}</td>
                      <td>
                        {user.roles.map(({ role, db }) => (
                          <span key={`${db}.${role}`} class="badge">
                            {role} on {db}
                          </span>
                        ))}
                      </td>
                      <td>
                        <span class="toolbar actions">
                          <button type="button" aria-label={`Edit ${user.user}`} onClick={() => setEdited(user)}>
                            Edit
                          </button>
                          <button type="button" aria-label={`Delete ${user.user}`} onClick={() => remove(user)}>
                            Delete
                          </button>
                        </span>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Shown>
      </section>
      {roles.error ? <ErrorBox error={roles.error} /> : <RolesSection roles={roles.value ?? []} reload={roles.reload} />}
      {edited && <UserDialog user={edited === 'new' ? undefined : edited} own={own} onClose={close} />}
    </>
  );
}
