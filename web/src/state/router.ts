// The page's address: `#/db/cars/documents?find=…`.

import { signal } from '@preact/signals';

export interface Place {
  /** The segments of the address, decoded. */
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
}

function read(): Place {
  const [address = '', query = ''] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const decoded = (segment: string) => {
    try {
      return decodeURIComponent(segment);
    } catch {
      return segment;
    }
  };
  return { segments: address === '' ? [] : address.split('/').map(decoded), query: new URLSearchParams(query) };
}

/** Where the page is. */
export const place = signal<Place>(read());

/** Asks whether the page may be left, while something is unsaved. */
const guards = new Set<() => boolean>();
let accepted = location.hash;

addEventListener('hashchange', () => {
  if (location.hash === accepted) return;
  if (![...guards].every((allows) => allows())) {
    history.replaceState(null, '', accepted);
    return;
  }
  accepted = location.hash;
  place.value = read();
});

addEventListener('beforeunload', (event) => {
  if (guards.size > 0) event.preventDefault();
});

/** Asks before the page is left, until the returned function is called. */
export function guard(allows: () => boolean): () => void {
  guards.add(allows);
  return () => guards.delete(allows);
}

/** The link to a place. */
export function link(segments: readonly string[], query: Record<string, string | undefined> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== '') parameters.set(name, value);
  const rest = parameters.size > 0 ? `?${parameters}` : '';
  return `#/${segments.map(encodeURIComponent).join('/')}${rest}`;
}

/** Goes to a place. */
export function go(segments: readonly string[], query: Record<string, string | undefined> = {}): void {
  location.hash = link(segments, query);
}

/** Changes the query of the address without a new entry in the browser's history. */
export function setQuery(query: Record<string, string | undefined>): void {
  const hash = link(place.value.segments, { ...Object.fromEntries(place.value.query), ...query });
  if (hash === location.hash) return;
  accepted = hash;
  history.replaceState(null, '', hash);
  place.value = read();
}
