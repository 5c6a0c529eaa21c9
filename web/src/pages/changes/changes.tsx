// The changes of a database as they happen.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { ObjectNode } from '../../json/node.ts';
import { ParseError, parseShell } from '../../json/parse.ts';
import { pretty } from '../../json/print.ts';
import { link, place, setQuery } from '../../state/router.ts';
import { count, Empty, ErrorBox, Segments } from '../../ui/basics.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { changes, type Change } from './feed.ts';

/** The changes that the page keeps. */
const MOST = 1000;

/** The page shows new changes at most this often. */
const SHOW_MS = 150;

const LONGEST = 20_000;

function parseSelector(text: string): { selector?: ObjectNode; problem?: string } {
  if (text.trim() === '') return {};
  try {
    const node = parseShell(text);
    return node.kind === 'object' ? { selector: node } : { problem: 'A selector is an object, such as { "type": "book" }.' };
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    return { problem: `At character ${error.offset + 1}: ${error.message}` };
  }
}

export function ChangesPage({ db }: DatabasePageProps) {
  const query = place.value.query;
  const selectorText = query.get('selector') ?? '';
  const since = query.get('since') === '0' ? '0' : 'now';
  const { selector, problem } = parseSelector(selectorText);
  const [typed, setTyped] = useState(selectorText);
  const [paused, setPaused] = useState(false);
  const { shown, waiting, total, state, error, clear } = useFeed(db, since, selectorText, selector, paused, problem === undefined);
  return (
    <div class="page changes">
      <div class="toolbar">
        <Segments
          label="Begin"
          options={[
            ['now', 'From now on'],
            ['0', 'From the beginning'],
          ]}
          value={since}
          onChange={(value) => setQuery({ since: value === '0' ? '0' : undefined })}
        />
        <form
          class="toolbar change-filter"
          role="search"
          aria-label="Filter of the changes"
          onSubmit={(event) => {
            event.preventDefault();
            setQuery({ selector: typed.trim() || undefined });
          }}
        >
          <input class="mono" aria-label="Selector" placeholder='Only documents like { "type": "book" }' spellcheck={false} aria-invalid={problem !== undefined} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          <button>Filter</button>
        </form>
        <span class="space" />
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? `Go on${waiting > 0 ? ` (${count(waiting)} new)` : ''}` : 'Pause'}
        </button>
        <button type="button" onClick={clear}>
          Clear
        </button>
      </div>
      {problem && (
        <p class="error-box" role="alert">
          {problem}
        </p>
      )}
      {error !== undefined && <ErrorBox error={error} />}
      <span class="soft" role="status">
        {state === 'waiting' ? 'The server is away: the feed goes on when it is back.' : paused ? 'Paused.' : 'Listening…'} {count(total)} {total === 1 ? 'change' : 'changes'}
        {total > MOST && `, the last ${count(MOST)} are shown`}
      </span>
      {shown.length === 0 ? (
        <Empty title="No change yet">
          <p class="soft">Whoever writes, over HTTP or as a MongoDB driver: it appears here.</p>
        </Empty>
      ) : (
        <div class="change-list" role="region" aria-label="Changes" tabIndex={0}>
          {shown.map((change) => (
            <ChangeLine key={change.seq} db={db} change={change} />
          ))}
        </div>
      )}
    </div>
  );
}

function ChangeLine({ db, change }: { db: string; change: Change }) {
  const [open, setOpen] = useState(false);
  const { id, revs, deleted, seq, at, doc } = change;
  return (
    <details class="change" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <time class="soft" dateTime={new Date(at).toISOString()}>
          {new Date(at).toLocaleTimeString()}
        </time>
        <span class="mono">{id}</span>
        {deleted && <span class="badge danger">deleted</span>}
        {revs.length > 1 && <span class="badge warning">{revs.length} leaves</span>}
        <span class="soft mono">{revs[0]}</span>
      </summary>
      {open && (
        <>
          <pre>{doc ? pretty(doc).slice(0, LONGEST) : ''}</pre>
          <p class="toolbar">
            {!deleted && <a href={link(['db', db, 'doc', id])}>Open</a>}
            <a href={link(['db', db, 'revisions', id])}>Revisions</a>
            <span class="soft">
              sequence <code>{seq}</code>
            </span>
          </p>
        </>
      )}
    </details>
  );
}

/** Follows the feed. While it is paused, changes are counted and kept, but not shown. */
function useFeed(db: string, since: string, selectorText: string, selector: ObjectNode | undefined, paused: boolean, enabled: boolean) {
  const [, render] = useState(0);
  const [state, setState] = useState<'open' | 'waiting'>('open');
  const [error, setError] = useState<unknown>();
  const kept = useRef({ all: [] as Change[], shown: [] as Change[], total: 0, shownTotal: 0 });
  const isPaused = useRef(paused);
  const show = () => {
    const now = kept.current;
    if (!isPaused.current) Object.assign(now, { shown: now.all, shownTotal: now.total });
    render((turn) => turn + 1);
  };
  useEffect(() => {
    isPaused.current = paused;
    show();
  }, [paused]);
  useEffect(() => {
    kept.current = { all: [], shown: [], total: 0, shownTotal: 0 };
    setError(undefined);
    render((turn) => turn + 1);
    if (!enabled) return;
    const aborter = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const follow = async () => {
      for await (const change of changes(db, { since, selector, signal: aborter.signal, onState: setState })) {
        const now = kept.current;
        now.all = [change, ...now.all.slice(0, MOST - 1)];
        now.total++;
        timer ??= setTimeout(() => {
          timer = undefined;
          show();
        }, SHOW_MS);
      }
    };
    follow().catch((caught) => !aborter.signal.aborted && setError(caught));
    return () => {
      aborter.abort();
      clearTimeout(timer);
    };
  }, [db, since, selectorText, enabled]);
  const clear = () => {
    kept.current = { all: [], shown: [], total: 0, shownTotal: 0 };
    render((turn) => turn + 1);
  };
  const { shown, total, shownTotal } = kept.current;
  return { shown, waiting: total - shownTotal, total, state, error, clear };
}
