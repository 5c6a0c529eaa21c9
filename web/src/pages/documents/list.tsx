// The documents of a database.

import type { DatabasePageProps } from '../registry.ts';

export function DocumentList(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
