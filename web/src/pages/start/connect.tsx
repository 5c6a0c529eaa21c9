// Lines to connect from programs.

export function ConnectPage() {
  return <p class="loading">…</p>;
}
