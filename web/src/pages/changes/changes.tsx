// The changes of a database as they happen.

import type { DatabasePageProps } from '../registry.ts';

export function ChangesPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
