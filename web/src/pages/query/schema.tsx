// The fields of a database, from a sample.

import type { DatabasePageProps } from '../registry.ts';

export function SchemaPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
