// Documents with conflicts.

import type { DatabasePageProps } from '../registry.ts';

export function ConflictsPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
