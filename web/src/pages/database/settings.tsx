// The settings of a database.

import type { DatabasePageProps } from '../registry.ts';

export function DatabaseSettings(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
