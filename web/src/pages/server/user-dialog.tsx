// The dialog that creates or changes a user.

import { useState } from 'preact/hooks';
import { done } from '../../state/notices.ts';
import { session } from '../../state/session.ts';
import { ErrorBox, Field, Form } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { createUser, updateUser, type RoleName, type User } from './accounts.ts';
import { RolePicker } from './role-picker.tsx';

interface Props {
  /** The user to change; nothing for a new one. */
  user: User | undefined;
  /** Roles that people have defined. */
  own: readonly RoleName[];
  onClose: (isChanged: boolean) => void;
}

export function UserDialog({ user, own, onClose }: Props) {
  const [name, setName] = useState(user?.user ?? '');
  const [db, setDb] = useState(user?.db ?? 'admin');
  const [password, setPassword] = useState('');
  const [roles, setRoles] = useState<readonly RoleName[]>(user?.roles ?? (session.value?.isOpen ? [{ role: 'root', db: 'admin' }] : []));
  const [error, setError] = useState<unknown>();
  const save = async () => {
    setError(undefined);
    try {
      if (user) await updateUser(user.user, user.db, { pwd: password || undefined, roles });
      else await createUser(name.trim(), password, db.trim(), roles);
      done(user ? 'Saved.' : `${name.trim()} may sign in, on both faces.`);
      onClose(true);
    } catch (caught) {
      setError(caught);
    }
  };
  return (
    <Dialog title={user ? `The user ${user.user}` : 'New user'} onClose={() => onClose(false)}>
      <Form onSubmit={save}>
        <div class="dialog-body">
          {!user && (
            <>
              <Field label="Name">{(id) => <input id={id} autofocus required autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
              <Field label="Defined in" hint="Users of admin sign in without naming a database.">
                {(id) => <input id={id} class="mono" required value={db} onInput={(event) => setDb(event.currentTarget.value)} />}
              </Field>
            </>
          )}
          <Field label={user ? 'New password' : 'Password'} hint={user ? 'Empty: the password stays.' : undefined}>
            {(id) => <input id={id} type="password" autocomplete="new-password" required={!user} value={password} onInput={(event) => setPassword(event.currentTarget.value)} />}
          </Field>
          <RolePicker roles={roles} onChange={setRoles} own={own} />
          {error !== undefined && <ErrorBox error={error} />}
        </div>
        <footer>
          <button type="button" onClick={() => onClose(false)}>
            Cancel
          </button>
          <button class="primary" disabled={!user && (name.trim() === '' || password === '')}>
            {user ? 'Save' : 'Create'}
          </button>
        </footer>
      </Form>
    </Dialog>
  );
}
