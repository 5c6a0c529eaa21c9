// Slow queries by shape.

export function SlowPage() {
  return <p class="loading">…</p>;
}
