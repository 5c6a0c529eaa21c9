// The indexes of a database.

import type { DatabasePageProps } from '../registry.ts';

export function IndexesPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
