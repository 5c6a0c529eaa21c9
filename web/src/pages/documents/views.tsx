// The rows of the list, as a table and as JSON.

import type { ComponentChildren } from 'preact';
import { brief, pretty, typeName } from '../../json/print.ts';
import { object } from '../../json/node.ts';
import { link } from '../../state/router.ts';
import { bytes } from '../../ui/basics.tsx';
import { pixelsOf, Rows } from '../../ui/virtual.tsx';
import { cell } from './columns.tsx';
import type { DocumentRow, PagedRows } from './rows.ts';

export interface ListProps {
  db: string;
  rows: PagedRows;
  selected: ReadonlyMap<string, string | undefined>;
  /** Selects or deselects a row; `isRange` extends the selection from the row before. */
  onSelect: (index: number, row: DocumentRow, isRange: boolean) => void;
  onRange: (first: number, end: number) => void;
  mayEdit: boolean;
  onEdit: (row: DocumentRow) => void;
}

const ROW_PIXELS = 33;
const CHECK_PIXELS = 40;
const ID_PIXELS = 250;
const COLUMN_PIXELS = 170;
const EDIT_PIXELS = 64;

export function TableView({ columns, ...list }: ListProps & { columns: readonly string[] }) {
  const { db, rows, selected, onSelect, mayEdit, onEdit } = list;
  const template = `${CHECK_PIXELS}px ${ID_PIXELS}px ${columns.map(() => `minmax(${COLUMN_PIXELS}px, 1fr)`).join(' ')} ${mayEdit ? `${EDIT_PIXELS}px` : ''}`;
  const width = CHECK_PIXELS + ID_PIXELS + columns.length * COLUMN_PIXELS + (mayEdit ? EDIT_PIXELS : 0);
  const line = (children: ComponentChildren) => (
    <div class="document-row" role="presentation" style={{ gridTemplateColumns: template, minWidth: pixelsOf(width) }}>
      {children}
    </div>
  );
  return (
    <Rows
      table
      label="Documents"
      count={rows.count}
      rowHeight={ROW_PIXELS}
      width={width}
      onRange={list.onRange}
      head={line(
        <>
          <span role="columnheader">
            <span class="visually-hidden">Selected</span>
          </span>
          <span role="columnheader">_id</span>
          {columns.map((name) => (
            <span role="columnheader" key={name} title={name}>
              {name}
            </span>
          ))}
          {mayEdit && (
            <span role="columnheader">
              <span class="visually-hidden">Edit</span>
            </span>
          )}
        </>,
      )}
      row={(index) => {
        const row = rows.row(index);
        if (!row) {
          return line(
            <span role="cell" class="soft waiting">
              …
            </span>,
          );
        }
        return line(
          <>
            <span role="cell">
              <Check row={row} selected={selected} onSelect={(isRange) => onSelect(index, row, isRange)} />
            </span>
            <span role="cell" class="id-cell">
              <IdLink db={db} row={row} />
            </span>
            {columns.map((name) => {
              const value = cell(row.doc, name);
              const text = brief(value);
              return (
                <span role="cell" key={name} class={value ? `value ${value.kind === 'object' ? typeName(value) : value.kind}` : 'value'} title={text}>
                  {text}
                </span>
              );
            })}
            {mayEdit && (
              <span role="cell">
                <button type="button" class="plain" onClick={() => onEdit(row)} aria-label={`Edit ${row.id}`}>
                  Edit
                </button>
              </span>
            )}
          </>,
        );
      }}
    />
  );
}

/** The lines of a document that the JSON view shows. */
const LINES = 9;
const LINE_PIXELS = 19;

export function JsonView(list: ListProps) {
  const { db, rows, selected, onSelect, mayEdit, onEdit } = list;
  return (
    <Rows
      label="Documents"
      count={rows.count}
      rowHeight={LINES * LINE_PIXELS + 48}
      onRange={list.onRange}
      row={(index) => {
        const row = rows.row(index);
        if (!row) return <div class="json-row soft">…</div>;
        const lines = row.doc ? bodyLines(row) : [];
        return (
          <div class="json-row">
            <div class="toolbar">
              <Check row={row} selected={selected} onSelect={(isRange) => onSelect(index, row, isRange)} />
              <IdLink db={db} row={row} />
              <span class="space" />
              {mayEdit && (
                <button type="button" class="plain" onClick={() => onEdit(row)} aria-label={`Edit ${row.id}`}>
                  Edit
                </button>
              )}
            </div>
            <pre>{lines.slice(0, lines.length > LINES ? LINES - 1 : LINES).join('\n')}</pre>
            {lines.length > LINES && (
              <a href={link(['db', db, 'doc', row.id])} aria-label={`All of ${row.id}`}>
                {lines.length - LINES + 1} more lines
              </a>
            )}
          </div>
        );
      }}
    />
  );
}

/** The longest line of the JSON view. */
const LONGEST_LINE = 400;

function bodyLines({ doc }: DocumentRow): string[] {
  const body = object(doc!.entries.filter(([name]) => !name.startsWith('_')));
  return pretty(body)
    .split('\n')
    .map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line));
}

interface CheckProps {
  row: DocumentRow;
  selected: ReadonlyMap<string, string | undefined>;
  onSelect: (isRange: boolean) => void;
}

function Check({ row, selected, onSelect }: CheckProps) {
  return <input type="checkbox" aria-label={`Select ${row.id}`} checked={selected.has(row.id)} onClick={(event) => onSelect(event.shiftKey)} />;
}

function IdLink({ db, row }: { db: string; row: DocumentRow }) {
  const conflicts = row.doc?.entries.some(([name]) => name === '_conflicts') ?? false;
  return (
    <>
      <a class="mono" href={link(['db', db, 'doc', row.id])} title={row.id}>
        {row.id}
      </a>
      {conflicts && (
        <a class="badge warning" href={link(['db', db, 'revisions', row.id])} aria-label={`Conflict of ${row.id}`}>
          conflict
        </a>
      )}
      {!row.doc && <span class="badge">{bytes(row.length)}: too long for the list</span>}
    </>
  );
}
