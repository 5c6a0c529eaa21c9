// The rows of a saved view.

import { useState } from 'preact/hooks';
import { documentPath, send } from '../../api/http.ts';
import { field, type Node } from '../../json/node.ts';
import { parseJson } from '../../json/parse.ts';
import { compact } from '../../json/print.ts';
import { useLoad, useSettled } from '../../state/load.ts';
import { link } from '../../state/router.ts';
import { count, Field, Segments, Shown } from '../../ui/basics.tsx';

const PAGE = 100;
const VALUE_LENGTH = 300;

interface Props {
  db: string;
  design: string;
  view: string;
  reduces: boolean;
}

export function ViewRows({ db, design, view, reduces }: Props) {
  const [grouping, setGrouping] = useState<'rows' | 'group' | 'all'>('rows');
  const [key, setKey] = useState('');
  const [skip, setSkip] = useState(0);
  const settled = useSettled(key.trim(), 400);
  const loaded = useLoad(async (signal) => {
    const parameters = !reduces ? {} : grouping === 'rows' ? { reduce: false } : grouping === 'group' ? { group: true } : { reduce: true };
    // A text that is not JSON is taken as a string.
    const wanted = settled === '' ? undefined : isJson(settled) ? settled : JSON.stringify(settled);
    const response = await send('GET', documentPath(db, `_design/${design}`, '_view', view), { query: { ...parameters, key: wanted, limit: PAGE + 1, skip: skip || undefined }, signal });
    const answer = parseJson(await response.text());
    const rows = field(answer, 'rows');
    return { rows: rows?.kind === 'array' ? rows.items : [], total: field(answer, 'total_rows') };
  }, [db, design, view, reduces, grouping, settled, skip]);
  return (
    <section class="trial" aria-label="Rows of the view">
      <div class="toolbar">
        {reduces && (
          <Segments
            label="Reduction"
            options={[
              ['rows', 'Rows'],
              ['group', 'Grouped by key'],
              ['all', 'Reduced'],
            ]}
            value={grouping}
            onChange={(next) => (setGrouping(next), setSkip(0))}
          />
        )}
        <Field label="Key">{(id) => <input id={id} class="mono" placeholder="any" value={key} onInput={(event) => (setKey(event.currentTarget.value), setSkip(0))} />}</Field>
      </div>
      <Shown of={loaded}>
        {({ rows, total }) => (
          <>
            <p class="soft" role="status">
              {total?.kind === 'number' ? `${rowsOf(Number(total.text))} in the view` : rowsOf(Math.min(rows.length, PAGE))}
            </p>
            <div class="wide-table panel" role="region" aria-label="Rows" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">Key</th>
                    <th scope="col">Value</th>
                    <th scope="col">Document</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.slice(0, PAGE).map((row, index) => (
                    <tr key={index}>
                      <td>
                        <code>{shown(field(row, 'key'))}</code>
                      </td>
                      <td>
                        <code>{shown(field(row, 'value'))}</code>
                      </td>
                      <td>
                        <IdLink db={db} id={field(row, 'id')} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <div class="toolbar">
              <button type="button" disabled={skip === 0} onClick={() => setSkip(Math.max(0, skip - PAGE))}>
                Rows before
              </button>
              <button type="button" disabled={rows.length <= PAGE} onClick={() => setSkip(skip + PAGE)}>
                Rows after
              </button>
            </div>
          </>
        )}
      </Shown>
    </section>
  );
}

function rowsOf(number: number): string {
  return `${count(number)} ${number === 1 ? 'row' : 'rows'}`;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function shown(node: Node | undefined): string {
  const text = node ? compact(node) : '';
  return text.length > VALUE_LENGTH ? `${text.slice(0, VALUE_LENGTH)}…` : text;
}

function IdLink({ db, id }: { db: string; id: Node | undefined }) {
  if (id?.kind !== 'string') return null;
  return (
    <a class="mono" href={link(['db', db, 'doc', id.value])}>
      {id.value}
    </a>
  );
}
