// Queries.

import type { DatabasePageProps } from '../registry.ts';

export function QueryPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
