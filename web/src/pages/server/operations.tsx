// Operations that run now.

export function OperationsPage() {
  return <p class="loading">…</p>;
}
