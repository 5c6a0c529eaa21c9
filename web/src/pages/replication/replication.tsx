// Replications.

export function ReplicationPage() {
  return <p class="loading">…</p>;
}
