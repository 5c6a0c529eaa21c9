// Users and roles.

export function UsersPage() {
  return <p class="loading">…</p>;
}
