// The continuous feed of a database's changes, which goes on by itself when the server has been away.

import { lines, path, send } from '../../api/http.ts';
import { field, object, type Node, type ObjectNode } from '../../json/node.ts';
import { parseJson } from '../../json/parse.ts';
import { compact } from '../../json/print.ts';

export interface Change {
  readonly seq: string;
  readonly id: string;
  readonly revs: readonly string[];
  readonly deleted: boolean;
  readonly doc: Node | undefined;
  /** When the page received it, in milliseconds since 1970. */
  readonly at: number;
}

/** The server sends an empty line this often. */
const HEARTBEAT_MS = 15_000;

const RETRY_MS = 2000;

interface Options {
  /** The sequence after which the feed begins: `0`, `now`, or one that a change had. */
  since: string;
  /** A Mango selector that the documents must match. */
  selector: ObjectNode | undefined;
  signal: AbortSignal;
  /** Called when the feed is open, and when it waits for the server. */
  onState: (state: 'open' | 'waiting') => void;
}

/** The changes until the signal aborts. An error of the request, such as a wrong selector, ends it. */
export async function* changes(db: string, { since, selector, signal, onState }: Options): AsyncGenerator<Change> {
  let last = since;
  while (!signal.aborted) {
    try {
      const response = await send('POST', path(db, '_changes'), {
        query: { feed: 'continuous', include_docs: true, style: 'all_docs', heartbeat: HEARTBEAT_MS, since: last, filter: selector && '_selector' },
        json: selector ? compact(object([['selector', selector]])) : '{}',
        signal,
      });
      onState('open');
      for await (const line of lines(response)) {
        const change = parseChange(line);
        if (!change) continue;
        last = change.seq;
        yield change;
      }
    } catch (error) {
      // Without an answer the server is away; a feed that breaks off is a TypeError of the browser.
      const isAway = (error as { status?: number }).status === 0 || error instanceof TypeError;
      if (signal.aborted) return;
      if (!isAway) throw error;
    }
    onState('waiting');
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function parseChange(line: string): Change | undefined {
  const node = parseJson(line);
  const [seq, id, revs] = [field(node, 'seq'), field(node, 'id'), field(node, 'changes')];
  if (seq?.kind !== 'string' || id?.kind !== 'string') return undefined;
  const names = revs?.kind === 'array' ? revs.items.map((item) => field(item, 'rev')) : [];
  const deleted = field(node, 'deleted');
  return {
    seq: seq.value,
    id: id.value,
    revs: names.flatMap((rev) => (rev?.kind === 'string' ? [rev.value] : [])),
    deleted: deleted?.kind === 'boolean' && deleted.value,
    doc: field(node, 'doc'),
    at: Date.now(),
  };
}
