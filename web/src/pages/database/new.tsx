// Makes a database.

export function NewDatabasePage() {
  return <p class="loading">…</p>;
}
