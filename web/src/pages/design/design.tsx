// Design documents and their views.

import type { DatabasePageProps } from '../registry.ts';

export function DesignPage(_: DatabasePageProps) {
  return <p class="loading">…</p>;
}
