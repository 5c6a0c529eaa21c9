// The frame: the bar, the tree of databases, the page of the address, dialogs and messages.

import { useEffect, useState } from 'preact/hooks';
import { reachable, returns } from './api/http.ts';
import { Page } from './pages/page.tsx';
import { Side } from './side.tsx';
import { SignIn } from './sign-in.tsx';
import { loadDatabases } from './state/databases.ts';
import { useInterval } from './state/load.ts';
import { dismiss, failed, notices } from './state/notices.ts';
import { isSigningIn, leave, session } from './state/session.ts';
import { nextTheme, theme } from './state/theme.ts';
import { place } from './state/router.ts';
import { Menu } from './ui/basics.tsx';
import { Confirmation } from './ui/dialog.tsx';

/** How often counts and sizes in the tree are renewed. */
const RENEWAL_MS = 10_000;

export function App() {
  const [sideOpen, setSideOpen] = useState(false);
  const now = session.value;
  const enabled = now !== undefined && (now.isOpen || now.user !== null);
  const back = returns.value;
  useEffect(() => {
    if (enabled) loadDatabases().catch(failed);
  }, [enabled, now?.user, back]);
  useInterval(() => {
    // A failure is shown by the page, which asks the server too.
    if (enabled && reachable.value && !isSigningIn.value) loadDatabases().catch(() => undefined);
  }, RENEWAL_MS);
  useEffect(() => setSideOpen(false), [place.value]);
  return (
    <div class="shell">
      <a class="skip" href={location.hash || '#/'} onClick={(event) => (event.preventDefault(), document.querySelector('main')?.focus())}>
        Skip to the page
      </a>
      <header class="bar">
        <button type="button" class="icon open-side" aria-label="Databases" aria-expanded={sideOpen} onClick={() => setSideOpen(!sideOpen)}>
          ☰
        </button>
        <a class="brand" href="#/">
          <img src="favicon.svg" alt="" />
          Diwan
        </a>
        <div class="space" />
        <button type="button" class="plain" onClick={nextTheme} title="Light, dark, or as the system">
          Theme: {theme.value}
        </button>
        {now?.user !== undefined && now.user !== null && (
          <Menu label={now.user} title={`Signed in as ${now.user}`}>
            <a class="button" href="#/server/users">
              Users and roles
            </a>
            <button type="button" onClick={() => leave().catch(failed)}>
              Sign out
            </button>
          </Menu>
        )}
        {now?.isOpen && <a href="#/server/users" title="There are no users: everybody on this machine may do everything.">No users yet</a>}
      </header>
      <Side open={sideOpen} />
      <main tabIndex={0}>
        {!reachable.value && (
          <div class="away" role="status">
            The server does not answer. The page goes on when it is back; what you have typed is kept.
          </div>
        )}
        {enabled ? <Page /> : <p class="loading">{now ? 'Sign in to see this server.' : 'Loading…'}</p>}
      </main>
      {isSigningIn.value && <SignIn />}
      <Confirmation />
      <div class="notices" role="status">
        {notices.value.map(({ id, kind, text }) => (
          <div key={id} class={`notice ${kind}`}>
            <span>{text}</span>
            <button type="button" class="icon" aria-label="Dismiss" onClick={() => dismiss(id)}>
              ×
            </button>
          </div>
        ))}
      </div>
    </div>
  );
}
