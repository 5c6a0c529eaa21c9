// One document.

import type { DatabasePageProps } from '../registry.ts';

export function DocumentPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
