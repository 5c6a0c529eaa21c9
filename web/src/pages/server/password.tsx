// Changes one's own password.

import { useState } from 'preact/hooks';
import { call, documentPath, send } from '../../api/http.ts';
import { done, failed } from '../../state/notices.ts';
import { enter } from '../../state/session.ts';
import { Field, Form } from '../../ui/basics.tsx';

export function PasswordForm({ user }: { user: string }) {
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  const save = async () => {
    const id = `org.couchdb.user:${user}`;
    try {
      const doc = await call<Record<string, unknown>>('GET', documentPath('_users', id));
      await send('PUT', documentPath('_users', id), { json: { ...doc, password } });
      // The cookie was made with the old password.
      await enter(user, password);
      setPassword('');
      setAgain('');
      done('Your password is changed.');
    } catch (error) {
      failed(error);
    }
  };
  return (
    <details class="panel">
      <summary>Change your password</summary>
      <Form onSubmit={save} label="Change your password">
        <input class="visually-hidden" autocomplete="username" aria-label="User" tabIndex={-1} readOnly value={user} />
        <Field label="New password">{(id) => <input id={id} type="password" autocomplete="new-password" value={password} onInput={(event) => setPassword(event.currentTarget.value)} />}</Field>
        <Field label="The same again" hint={again !== '' && again !== password ? 'The two passwords differ.' : undefined}>
          {(id) => <input id={id} type="password" autocomplete="new-password" value={again} onInput={(event) => setAgain(event.currentTarget.value)} />}
        </Field>
        <button disabled={password === '' || password !== again}>Change the password</button>
      </Form>
    </details>
  );
}
