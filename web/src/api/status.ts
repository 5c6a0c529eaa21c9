// The addresses and figures of the server.

import { call } from './http.ts';

export interface Status {
  readonly version: string;
  readonly uptime_ms: number;
  /** Whether the server has no users, so that everybody may do everything. */
  readonly open: boolean;
  readonly mongodb: { readonly address: string; readonly port: number; readonly tls: boolean; readonly set: string | null };
  readonly http: { readonly address: string; readonly port: number; readonly tls: boolean };
  readonly figures?: {
    readonly connections: number;
    readonly memory_bytes: number;
    readonly cache_bytes: number;
    readonly cache_limit_bytes: number;
    readonly journal_bytes: number;
    readonly disk_bytes: number;
  };
}

/** Asks the server for its addresses and figures. */
export function loadStatus(signal?: AbortSignal): Promise<Status> {
  return call('GET', '/_diwan/status', { signal });
}

/** What a MongoDB driver connects to, as the browser's machine reaches it. */
export function mongoUri({ mongodb }: Status, user?: string | null): string {
  const name = user ? `${encodeURIComponent(user)}:PASSWORD@` : '';
  return `mongodb://${name}${location.hostname}:${mongodb.port}/?directConnection=true${mongodb.tls ? '&tls=true' : ''}`;
}

/** What an HTTP client connects to. */
export function httpUri(user?: string | null): string {
  return `${location.protocol}//${user ? `${encodeURIComponent(user)}:PASSWORD@` : ''}${location.host}`;
}
