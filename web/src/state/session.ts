// Who has signed in, and what that user may do.

import { computed, signal } from '@preact/signals';
import { call, Failure, signIn } from '../api/http.ts';
import { namespace } from '../api/names.ts';
import { plainCommand } from '../api/command.ts';
import { forget } from './remembered.ts';

interface UserContext {
  readonly name: string | null;
  readonly roles: readonly string[];
}

interface Privilege {
  readonly resource: { db?: string; collection?: string; cluster?: boolean; anyResource?: boolean };
  readonly actions: readonly string[];
}

interface Session {
  readonly user: string | null;
  readonly roles: readonly string[];
  /** Whether the server has no users: everybody may do everything. */
  readonly isOpen: boolean;
  readonly privileges: readonly Privilege[];
}

/** The session as the server reported it last; nothing before the first answer. */
export const session = signal<Session | undefined>(undefined);

/** Whether the sign-in dialog is shown. */
export const isSigningIn = signal(false);

/** Whether the user is an administrator of the server. */
export const isAdministrator = computed(() => {
  const now = session.value;
  return now !== undefined && (now.isOpen || now.roles.includes('_admin'));
});

let waiting: ((signedIn: boolean) => void)[] = [];

signIn.ask = () => {
  isSigningIn.value = true;
  return new Promise((resolve) => waiting.push(resolve));
};

function answerWaiting(signedIn: boolean): void {
  isSigningIn.value = false;
  const all = waiting;
  waiting = [];
  for (const resolve of all) resolve(signedIn);
}

/** Asks the server who has signed in. */
export async function loadSession(): Promise<void> {
  const answer = await call<{ userCtx: UserContext }>('GET', '/_session', { anonymous: true });
  const { name, roles } = answer.userCtx;
  const isOpen = name === null && roles.includes('_admin');
  let privileges: readonly Privilege[] = [];
  if (name !== null) {
    const status = await plainCommand<{ authInfo: { authenticatedUserPrivileges?: Privilege[] } }>('admin', [
      ['connectionStatus', 1],
      ['showPrivileges', true],
    ]);
    privileges = status.authInfo.authenticatedUserPrivileges ?? [];
  }
  session.value = { user: name, roles, isOpen, privileges };
  if (name === null && !isOpen) isSigningIn.value = true;
}

/** Signs in. Returns the reason if the server refuses. */
export async function enter(name: string, password: string): Promise<string | undefined> {
  try {
    await call('POST', '/_session', { json: { name, password }, anonymous: true });
  } catch (error) {
    return error instanceof Failure ? error.message : String(error);
  }
  await loadSession();
  answerWaiting(true);
  return undefined;
}

/** Closes the dialog without a sign-in; what waits for it fails. */
export function cancelSignIn(): void {
  answerWaiting(false);
}

/** Signs out and forgets everything on the page, and the queries that the browser has kept. */
export async function leave(): Promise<void> {
  await call('DELETE', '/_session', { anonymous: true });
  forget('history.');
  location.hash = '#/';
  location.reload();
}

/** Whether the user may do `action` (MongoDB's name) on a database as HTTP names it; without one, on the server. */
export function may(action: string, db?: string): boolean {
  const now = session.value;
  if (!now) return false;
  if (now.isOpen || now.roles.includes('_admin')) return true;
  const wanted = db === undefined ? undefined : namespace(db);
  return now.privileges.some(({ resource, actions }) => {
    if (!actions.includes(action) && !actions.includes('anyAction')) return false;
    if (resource.anyResource) return true;
    if (!wanted) return resource.cluster === true;
    const covers = (pattern: string | undefined, name: string) => pattern === '' || pattern === name;
    return covers(resource.db, wanted.database) && covers(resource.collection, wanted.collection);
  });
}
