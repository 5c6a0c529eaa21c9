// The server at a glance.

export function OverviewPage() {
  return <p class="loading">…</p>;
}
