// The dialog that asks for a name and a password. The page behind it stays as it is, so nothing that was typed is lost.

import { useState } from 'preact/hooks';
import { cancelSignIn, enter, session } from './state/session.ts';
import { ErrorBox, Field, Form } from './ui/basics.tsx';
import { Dialog } from './ui/dialog.tsx';

export function SignIn() {
  const [name, setName] = useState(session.value?.user ?? '');
  const [password, setPassword] = useState('');
  const [error, setError] = useState<string>();
  return (
    <Dialog title="Sign in" onClose={cancelSignIn}>
      <Form onSubmit={async () => setError(await enter(name, password))}>
        <div class="dialog-body">
          {session.value?.user && <p>Your session has ended. Sign in again to go on where you were.</p>}
          {error && <ErrorBox error={error} />}
          <Field label="Name">
            {(id) => <input id={id} name="username" autocomplete="username" autofocus required value={name} onInput={(event) => setName(event.currentTarget.value)} />}
          </Field>
          <Field label="Password">
            {(id) => (
              <input id={id} type="password" name="password" autocomplete="current-password" required value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
            )}
          </Field>
        </div>
        <footer>
          <button class="primary">Sign in</button>
        </footer>
      </Form>
    </Dialog>
  );
}
