// The results of a query as a table or as JSON.

import { useMemo, useState } from 'preact/hooks';
import { field, type Node } from '../../json/node.ts';
import { idText } from '../../json/ids.ts';
import { brief, pretty } from '../../json/print.ts';
import { databases } from '../../state/databases.ts';
import { link } from '../../state/router.ts';
import { remembered } from '../../state/remembered.ts';
import { count, duration, Empty, ErrorBox, Segments } from '../../ui/basics.tsx';
import { pixelsOf, Rows } from '../../ui/virtual.tsx';
import type { Parsed } from './request.ts';
import type { RunningQuery } from './use-results.ts';

const viewChoice = remembered<'table' | 'json'>('query.view', 'json');

const MOST_COLUMNS = 30;
const COLUMN_PIXELS = 180;
const ROW_PIXELS = 33;

/** Longer documents are shown in part. */
const MOST_CHARACTERS = 20_000;

export function ResultsView({ db, asked, run }: { db: string; asked: Parsed | undefined; run: RunningQuery }) {
  const [view, setView] = useState(viewChoice.get);
  if (run.state === 'idle') return <p class="soft">Run the query to see its results.</p>;
  const { docs, state } = run;
  // The `_id` of a pipeline's result is often a group's key. Views of MongoDB have no documents of their own.
  const isView = databases.value?.find((database) => database.name === db)?.isView ?? false;
  const idOf = (doc: Node): string | undefined => {
    if (isView || asked?.kind === 'pipeline') return undefined;
    if (asked?.kind === 'view') {
      const id = field(doc, 'id');
      return id?.kind === 'string' ? id.value : undefined;
    }
    const id = field(doc, '_id');
    if (!id) return undefined;
    return asked?.kind === 'selector' ? (id.kind === 'string' ? id.value : undefined) : idText(id);
  };
  return (
    <>
      <div class="toolbar status-line">
        <span role="status">{statusText(run)}</span>
        {state === 'paused' && (
          <button type="button" onClick={run.more}>
            Read more
          </button>
        )}
        <span class="space" />
        <Segments
          label="View of the results"
          options={[
            ['table', 'Table'],
            ['json', 'JSON'],
          ]}
          value={view}
          onChange={(value) => {
            viewChoice.set(value);
            setView(value);
          }}
        />
      </div>
      {state === 'failed' && <ErrorBox error={run.error} />}
      {docs.length === 0 ? state === 'finished' && <Empty title="No document matches" /> : view === 'table' ? <Table db={db} docs={docs} idOf={idOf} /> : <Json db={db} docs={docs} idOf={idOf} />}
    </>
  );
}

function statusText({ state, docs, firstMillis }: RunningQuery): string {
  const found = `${count(docs.length)} ${docs.length === 1 ? 'result' : 'results'}`;
  const first = firstMillis === undefined ? '' : `, the first after ${duration(firstMillis)}`;
  switch (state) {
    case 'running':
      return `Running… ${found}`;
    case 'paused':
      return `${found}${first}. There are more.`;
    case 'cancelled':
      return `Cancelled after ${found}.`;
    case 'failed':
      return `Failed after ${found}.`;
    default:
      return found + first;
  }
}

interface ListProps {
  db: string;
  docs: readonly Node[];
  idOf: (doc: Node) => string | undefined;
}

function Table({ db, docs, idOf }: ListProps) {
  const columns = useMemo(() => {
    const names = new Set<string>();
    for (const doc of docs) if (doc.kind === 'object') for (const [name] of doc.entries) if (names.size < MOST_COLUMNS) names.add(name);
    return [...names];
  }, [docs]);
  const template = { gridTemplateColumns: columns.map(() => `minmax(${COLUMN_PIXELS}px, 1fr)`).join(' '), minWidth: pixelsOf(columns.length * COLUMN_PIXELS) };
  return (
    <Rows
      table
      label="Results"
      count={docs.length}
      rowHeight={ROW_PIXELS}
      width={columns.length * COLUMN_PIXELS}
      head={
        <div class="document-row" role="presentation" style={template}>
          {columns.map((name) => (
            <span role="columnheader" key={name} title={name}>
              {name}
            </span>
          ))}
        </div>
      }
      row={(index) => {
        const doc = docs[index]!;
        const id = idOf(doc);
        return (
          <div class="document-row" role="presentation" style={template}>
            {columns.map((name) => {
              const text = brief(field(doc, name));
              const isId = id !== undefined && (name === '_id' || name === 'id');
              return (
                <span role="cell" key={name} title={text}>
                  {isId ? <a href={link(['db', db, 'doc', id])}>{text}</a> : text}
                </span>
              );
            })}
          </div>
        );
      }}
    />
  );
}

function Json({ db, docs, idOf }: ListProps) {
  return (
    <div class="result-list" role="region" aria-label="Results" tabIndex={0}>
      {docs.map((doc, index) => (
        <Result key={index} db={db} doc={doc} id={idOf(doc)} />
      ))}
    </div>
  );
}

function Result({ db, doc, id }: { db: string; doc: Node; id: string | undefined }) {
  const text = useMemo(() => pretty(doc), [doc]);
  return (
    <div class="result">
      <pre>{text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text}</pre>
      {id !== undefined && (
        <a class="result-link" href={link(['db', db, 'doc', id])} aria-label={`Open ${id}`}>
          Open
        </a>
      )}
    </div>
  );
}
