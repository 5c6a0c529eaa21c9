// Entries of the audit log.

export function AuditPage() {
  return <p class="loading">…</p>;
}
