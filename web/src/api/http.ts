// One request to the server: addresses, errors, sign-in, and a server that is away.

import { signal } from '@preact/signals';

/** An answer that is an error, or no answer at all (`status` 0). */
export class Failure extends Error {
  readonly status: number;
  /** CouchDB's short name of the error. */
  readonly error: string;
  /** The parsed answer, where there is one. */
  readonly body: unknown;

  constructor(status: number, error: string, reason: string, body?: unknown) {
    super(reason);
    this.status = status;
    this.error = error;
    this.body = body;
  }
}

/** Whether the server answers. The shell shows a banner while it does not. */
export const reachable = signal(true);

/** Grows each time the server is back: loads run again. */
export const returns = signal(0);

/** Asks the person to sign in; resolves to whether a user has signed in. The shell sets it. */
export const signIn: { ask: () => Promise<boolean> } = { ask: async () => false };

/** The address of a path whose segments may contain any character. */
export function path(...segments: string[]): string {
  return `/${segments.map((segment) => encodeURIComponent(segment)).join('/')}`;
}

/** The address of a document. The ids of design and local documents have two segments. */
export function documentPath(db: string, id: string, ...rest: string[]): string {
  const [kind, ...name] = id.split('/');
  const special = (kind === '_design' || kind === '_local') && name.length > 0;
  return path(db, ...(special ? [kind!, name.join('/')] : [id]), ...rest);
}

export type Query = Record<string, string | number | boolean | undefined>;

export interface Options {
  query?: Query;
  /** A value that is sent as JSON, or a text that is sent as it is. */
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Answers 401 as an error instead of asking for a sign-in. */
  anonymous?: boolean;
}

/** Sends a request and returns the answer if it is a success. Others throw a [`Failure`]. */
export async function send(method: string, address: string, options: Options = {}): Promise<Response> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) if (value !== undefined) query.set(name, String(value));
  const url = query.size > 0 ? `${address}?${query}` : address;
  const headers: Record<string, string> = { accept: 'application/json', ...options.headers };
  let body = options.body;
  if (options.json !== undefined) {
    headers['content-type'] = 'application/json';
    body = typeof options.json === 'string' ? options.json : JSON.stringify(options.json);
  }
  let response: Response;
  try {
    response = await fetch(url, { method, headers, body, signal: options.signal, credentials: 'same-origin', cache: 'no-store' });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    watchReturn();
    throw new Failure(0, 'unreachable', 'The server does not answer. The page tries again until it does.');
  }
  if (response.ok) return response;
  if (response.status === 401 && !options.anonymous && !(await isSignedIn()) && (await signIn.ask())) return send(method, address, options);
  const text = await response.text();
  let answer: { error?: string; reason?: string; errmsg?: string; codeName?: string } = {};
  try {
    answer = JSON.parse(text);
  } catch {
    answer.reason = text;
  }
  throw new Failure(response.status, answer.error ?? answer.codeName ?? String(response.status), answer.reason ?? answer.errmsg ?? response.statusText, answer);
}

/** Sends a request and parses the answer as JSON. */
export async function call<T>(method: string, address: string, options: Options = {}): Promise<T> {
  const response = await send(method, address, options);
  return (await response.json()) as T;
}

/** Whether the server knows the user: then an answer 401 says that somebody else may do it. */
async function isSignedIn(): Promise<boolean> {
  try {
    const response = await fetch('/_session', { headers: { accept: 'application/json' }, credentials: 'same-origin', cache: 'no-store' });
    const session = (await response.json()) as { userCtx?: { name?: string | null } };
    return response.ok && typeof session.userCtx?.name === 'string';
  } catch {
    return false;
  }
}

let waiting = false;

/** Asks `/_up` again and again until the server answers. */
async function watchReturn(): Promise<void> {
  reachable.value = false;
  if (waiting) return;
  waiting = true;
  for (let delay = 500; ; delay = Math.min(delay * 1.5, 5000)) {
    await new Promise((resolve) => setTimeout(resolve, delay));
    try {
      if ((await fetch('/_up', { cache: 'no-store' })).ok) break;
    } catch {
      // Still away.
    }
  }
  waiting = false;
  reachable.value = true;
  returns.value++;
}

/** The lines of an answer that arrives in parts, such as a feed. Heartbeats (empty lines) are skipped. */
export async function* lines(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split('\n');
      rest = parts.pop()!;
      for (const part of parts) if (part.trim() !== '') yield part;
    }
    if (rest.trim() !== '') yield rest;
  } finally {
    // Ends the request when the reader stops early.
    await reader.cancel().catch(() => undefined);
  }
}
