// The first page.

export function StartPage() {
  return <p class="loading">…</p>;
}
