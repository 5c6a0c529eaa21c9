// The revision tree of a document.

import type { DatabasePageProps } from '../registry.ts';

export function RevisionsPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
