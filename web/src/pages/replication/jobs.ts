// Replications as the server's scheduler knows them.

import { call, documentPath, Failure } from '../../api/http.ts';

/** A document of `_replicator` with the state of its replication. */
export interface Replication {
  readonly id: string;
  readonly source: string;
  readonly target: string;
  readonly continuous: boolean;
  /** `running`, `completed`, `crashing`, `failed` and others of CouchDB's scheduler. */
  readonly state: string;
  readonly errorCount: number;
  /** Why it failed last. */
  readonly error: string | undefined;
  readonly read: number;
  readonly written: number;
  readonly failures: number;
  /** Bytes of documents and attachments that were written. */
  readonly bytes: number | undefined;
  /** Changes of the source that are left; nothing if it is not known. */
  readonly pending: number | undefined;
  readonly started: string | undefined;
  readonly updated: string | undefined;
}

interface SchedulerDoc {
  readonly doc_id: string;
  readonly id: string | null;
  readonly source: string;
  readonly target: string;
  readonly state: string;
  readonly error_count: number;
  readonly start_time: string | null;
  readonly last_updated: string | null;
  readonly info: Info | null;
}

interface Info {
  readonly error?: string;
  readonly docs_read?: number;
  readonly docs_written?: number;
  readonly doc_write_failures?: number;
  readonly bytes_written?: number;
  readonly changes_pending?: number | null;
}

interface Job {
  readonly doc_id: string | null;
  readonly history: readonly { readonly type: string; readonly reason?: string }[];
}

/** All replications that have a document, the newest first. */
export async function loadReplications(signal?: AbortSignal): Promise<Replication[]> {
  const [{ docs }, { jobs }] = await Promise.all([
    call<{ docs: SchedulerDoc[] }>('GET', '/_scheduler/docs', { query: { limit: 1000 }, signal }),
    call<{ jobs: Job[] }>('GET', '/_scheduler/jobs', { query: { limit: 1000 }, signal }).catch((error) => {
      // The jobs are for administrators, the documents also for their owners.
      if (error instanceof Failure && error.status === 403) return { jobs: [] };
      throw error;
    }),
  ]);
  const found = docs.map((doc): Replication => {
    const job = jobs.find(({ doc_id }) => doc_id === doc.doc_id);
    const info = doc.info ?? {};
    return {
      id: doc.doc_id,
      source: doc.source,
      target: doc.target,
      continuous: doc.id?.includes('+continuous') ?? false,
      state: doc.state,
      errorCount: doc.error_count,
      error: info.error ?? (doc.error_count > 0 ? job?.history.find(({ type }) => type === 'crashed')?.reason : undefined),
      read: info.docs_read ?? 0,
      written: info.docs_written ?? 0,
      failures: info.doc_write_failures ?? 0,
      bytes: info.bytes_written,
      pending: info.changes_pending ?? undefined,
      started: doc.start_time ?? undefined,
      updated: doc.last_updated ?? undefined,
    };
  });
  return found.sort((a, b) => (b.started ?? '').localeCompare(a.started ?? ''));
}

/** Stops a replication: its document is deleted. What it has written stays. */
export async function stopReplication(id: string): Promise<void> {
  const { _rev } = await call<{ _rev: string }>('GET', documentPath('_replicator', id));
  await call('DELETE', documentPath('_replicator', id), { query: { rev: _rev } });
}

/** One end of a replication: a database of this server, or an address elsewhere. */
export interface End {
  readonly address: string;
  readonly user: string;
  readonly password: string;
}

/** What a person asks for. */
export interface Order {
  readonly source: End;
  readonly target: End;
  readonly continuous: boolean;
  readonly createTarget: boolean;
  /** A Mango selector as JSON; empty for all documents. */
  readonly selector: string;
}

/** Whether an end is elsewhere. */
export function isRemote(address: string): boolean {
  return /^https?:\/\//.test(address.trim());
}

function endMember({ address, user, password }: End): unknown {
  if (!isRemote(address)) return address.trim();
  return user === '' ? { url: address.trim() } : { url: address.trim(), auth: { basic: { username: user, password } } };
}

/** Starts a replication and returns the id of its document. */
export async function startReplication({ source, target, continuous, createTarget, selector }: Order): Promise<string> {
  const json = {
    source: endMember(source),
    target: endMember(target),
    continuous: continuous || undefined,
    create_target: createTarget || undefined,
    selector: selector.trim() === '' ? undefined : JSON.parse(selector),
  };
  const { id } = await call<{ id: string }>('POST', '/_replicator', { json });
  return id;
}

/** What a person can do about an error. */
export function advice(error: string): string | undefined {
  const text = error.toLowerCase();
  if (/unauthorized|401/.test(text)) return 'The name or the password is wrong at one of the ends: stop it and start it again with the right ones.';
  if (/forbidden|403/.test(text)) return 'The user may not do this there. He needs to read the source and to write to the target.';
  if (/db_not_found|could not open|404|no_db_file/.test(text)) return 'The database does not exist. Create it, or start the replication again with “Create the target”.';
  if (/connection refused|econnrefused/.test(text)) return 'No server listens at that address and port. The server may be down: the replication tries again by itself.';
  if (/dns|resolve|nxdomain|name or service/.test(text)) return 'The name of the host is unknown: look for a typing error in the address.';
  if (/certificate|tls|ssl/.test(text)) return 'The other end’s certificate is not trusted. Give the server its authority’s certificate (settings, section replicator).';
  if (/timeout|timed out/.test(text)) return 'The other end is slow or a firewall drops the packets. The replication tries again by itself.';
  return undefined;
}
