// Settings of the server.

export function SettingsPage() {
  return <p class="loading">…</p>;
}
