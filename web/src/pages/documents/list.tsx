// The documents of a database.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ObjectNode } from '../../json/node.ts';
import { ParseError, parseShell } from '../../json/parse.ts';
import { databaseInfo, loadDatabases } from '../../state/databases.ts';
import { useInterval, useSettled } from '../../state/load.ts';
import { failed } from '../../state/notices.ts';
import { link, place, setQuery } from '../../state/router.ts';
import { remembered } from '../../state/remembered.ts';
import { may } from '../../state/session.ts';
import { count, Empty, ErrorBox, Menu, Segments } from '../../ui/basics.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { BulkDelete, BulkEdit } from './bulk-dialog.tsx';
import { chosenColumns, ColumnChooser, firstColumns, knownFields } from './columns.tsx';
import { EditDialog } from './edit-dialog.tsx';
import { ExportDialog } from './export-dialog.tsx';
import { FilterField } from './filter.tsx';
import { ImportDialog } from './import-dialog.tsx';
import { PagedRows, type DocumentRow, type Source } from './rows.ts';
import { allDocuments, idsBeginningWith, matching } from './sources.ts';
import type { Scope } from './scope.ts';
import { JsonView, TableView } from './views.tsx';

const viewChoice = remembered<'table' | 'json'>('documents.view', 'table');

/** How often the page asks whether the database has changed. */
const REFRESH_MS = 3000;

/** The characters of documents that one request should bring. */
const PAGE_CHARACTERS = 1_000_000;
const LARGEST_PAGE = 100;
const SMALLEST_PAGE = 4;

type Open = 'columns' | 'import' | 'export' | 'edit' | 'delete';

/** The filter of the address; `problem` if it is none. */
function parsedFilter(text: string): { filter?: ObjectNode; problem?: string } {
  if (text.trim() === '') return {};
  try {
    const node = parseShell(text);
    return node.kind === 'object' ? { filter: node } : { problem: 'A filter is an object, such as { year: { $lt: 1970 } }.' };
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    return { problem: `At character ${error.offset + 1}: ${error.message}` };
  }
}

export function DocumentList({ db }: DatabasePageProps) {
  const query = place.value.query;
  const [find, filterText, withDesign] = [query.get('find') ?? '', query.get('filter') ?? '', query.get('design') === '1'];
  const { filter, problem } = useMemo(() => parsedFilter(filterText), [filterText]);
  const [view, setView] = useState(viewChoice.get);
  const [chosen, setChosen] = useState(chosenColumns(db).get);
  const [typed, setTyped] = useState(find);
  const [selected, setSelected] = useState<ReadonlyMap<string, string | undefined>>(new Map());
  const [open, setOpen] = useState<Open>();
  const [edited, setEdited] = useState<DocumentRow>();
  const { rows, refresh, error } = useRows(db, find, filter, withDesign);
  const settled = useSettled(typed, 300);
  useEffect(() => setQuery({ find: settled }), [settled]);
  const lastIndex = useRef(0);

  const fields = useMemo(() => knownFields(rows?.loaded() ?? []), [rows, rows?.isReady, open]);
  const columns = chosen ?? firstColumns(fields);
  const isNarrowed = find !== '' || filter !== undefined;
  const mayWrite = may('insert', db) && may('update', db);
  const scope: Scope = selected.size > 0 ? { kind: 'ids', ids: selected } : { kind: 'filter', filter };
  const mayScope = find === '' || selected.size > 0;

  const select = (index: number, row: DocumentRow, isRange: boolean) => {
    const next = new Map(selected);
    const add = !next.has(row.id);
    const [from, to] = isRange ? [Math.min(index, lastIndex.current), Math.max(index, lastIndex.current)] : [index, index];
    for (let at = from; at <= to; at++) {
      const each = rows?.row(at);
      if (!each) continue;
      if (add) next.set(each.id, each.rev);
      else next.delete(each.id);
    }
    lastIndex.current = index;
    setSelected(next);
  };
  const choose = (names: readonly string[] | null) => {
    chosenColumns(db).set(names);
    setChosen(names);
  };
  const close = (isChanged: boolean) => {
    setOpen(undefined);
    if (!isChanged) return;
    setSelected(new Map());
    refresh();
    loadDatabases().catch(failed);
  };
  const list = rows && { db, rows, selected, onSelect: select, onRange: (first: number, end: number) => rows.show(first, end), mayEdit: mayWrite, onEdit: setEdited };

  return (
    <div class="page documents">
      <div class="toolbar">
        <input class="find-id" type="search" aria-label="Find an id" placeholder="Find an id or its beginning" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <FilterField key={filterText} value={filterText} problem={problem} onApply={(text) => setQuery({ filter: text })} />
        <Segments
          label="View"
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
        {view === 'table' && (
          <button type="button" onClick={() => setOpen('columns')}>
            Columns
          </button>
        )}
        <span class="space" />
        <Menu label="More ▾" title="More actions">
          {mayWrite && (
            <button type="button" onClick={() => setOpen('import')}>
              Import…
            </button>
          )}
          <button type="button" onClick={() => setOpen('export')}>
            Export…
          </button>
          {may('update', db) && mayScope && (
            <button type="button" onClick={() => setOpen('edit')}>
              {filter ? 'Edit all that match…' : 'Edit all…'}
            </button>
          )}
          {may('remove', db) && mayScope && (
            <button type="button" onClick={() => setOpen('delete')}>
              {filter ? 'Delete all that match…' : 'Delete all…'}
            </button>
          )}
          <button type="button" aria-pressed={withDesign} onClick={() => setQuery({ design: withDesign ? undefined : '1' })}>
            {withDesign ? '✓ ' : ''}Show design documents
          </button>
        </Menu>
        {mayWrite && (
          <a class="button primary" href={link(['db', db, 'doc'])}>
            New document
          </a>
        )}
      </div>
      <div class="toolbar status-line">
        <span role="status">{rows?.isReady ? countText(rows, isNarrowed) : 'Loading…'}</span>
        {filter && <a href={link(['db', db, 'query'], { filter: filterText })}>Open in the query page</a>}
        {selected.size > 0 && (
          <>
            <strong>{count(selected.size)} selected</strong>
            {may('update', db) && (
              <button type="button" onClick={() => setOpen('edit')}>
                Edit selected…
              </button>
            )}
            {may('remove', db) && (
              <button type="button" onClick={() => setOpen('delete')}>
                Delete selected…
              </button>
            )}
            <button type="button" onClick={() => setOpen('export')}>
              Export selected…
            </button>
            <button type="button" class="plain" onClick={() => setSelected(new Map())}>
              Select none
            </button>
          </>
        )}
      </div>
      {error !== undefined && <ErrorBox error={error} retry={() => rows?.retry()} />}
      {rows?.isReady && rows.count === 0 ? (
        <Empty title={isNarrowed ? 'No document matches' : 'No documents yet'}>
          {!isNarrowed && mayWrite && (
            <p class="toolbar centred">
              <a class="button primary" href={link(['db', db, 'doc'])}>
                New document
              </a>
              <button type="button" onClick={() => setOpen('import')}>
                Import a file
              </button>
            </p>
          )}
        </Empty>
      ) : (
        list && (view === 'table' ? <TableView key={`${find} ${filterText}`} {...list} columns={columns} /> : <JsonView key={`${find} ${filterText}`} {...list} />)
      )}
      {open === 'columns' && <ColumnChooser fields={fields} columns={columns} onChoose={choose} onClose={() => setOpen(undefined)} />}
      {open === 'import' && <ImportDialog db={db} onClose={close} />}
      {open === 'export' && <ExportDialog db={db} scope={scope} onClose={() => setOpen(undefined)} />}
      {open === 'edit' && <BulkEdit db={db} scope={scope} onClose={close} />}
      {open === 'delete' && <BulkDelete db={db} scope={scope} onClose={close} />}
      {edited && <EditDialog db={db} id={edited.id} onClose={(isChanged) => (setEdited(undefined), isChanged && refresh())} />}
    </div>
  );
}

function countText(rows: PagedRows, isNarrowed: boolean): string {
  const shown = rows.isCounted ? count(rows.count) : `more than ${count(rows.count)}`;
  const noun = rows.count === 1 ? 'document' : 'documents';
  return isNarrowed ? `${shown} ${noun} found` : `${shown} ${noun}`;
}

/** The rows of what is looked for. They follow the database: a change is noticed by its sequence number. */
function useRows(db: string, find: string, filter: ObjectNode | undefined, withDesign: boolean) {
  const [, render] = useState(0);
  const [rows, setRows] = useState<PagedRows>();
  const [error, setError] = useState<unknown>();
  const sequence = useRef<string | undefined>(undefined);
  useEffect(() => {
    const source: Source = filter ? matching(db, filter) : find !== '' ? idsBeginningWith(db, find) : allDocuments(db, withDesign);
    const aborter = new AbortController();
    let made: PagedRows | undefined;
    setError(undefined);
    databaseInfo(db, aborter.signal).then((info) => {
      if (aborter.signal.aborted) return;
      sequence.current = info.update_seq;
      const average = info.doc_count > 0 ? info.sizes.external / info.doc_count : 0;
      const size = Math.round(Math.max(SMALLEST_PAGE, Math.min(LARGEST_PAGE, PAGE_CHARACTERS / Math.max(1, average))));
      made = new PagedRows(source, size, () => {
        if (aborter.signal.aborted) return;
        setError(made!.error);
        render((turn) => turn + 1);
      });
      setRows(made);
      made.start();
    }, (caught) => !aborter.signal.aborted && setError(caught));
    return () => {
      aborter.abort();
      made?.stop();
    };
  }, [db, find, filter, withDesign]);
  const refresh = () => {
    rows?.refresh().catch(failed);
  };
  useInterval(() => {
    databaseInfo(db).then(
      ({ update_seq }) => {
        if (update_seq === sequence.current) return;
        sequence.current = update_seq;
        refresh();
      },
      // The frame of the page says that the server is away.
      () => undefined,
    );
  }, REFRESH_MS);
  return { rows, refresh, error };
}
