// The indexes of a database with both of their names, sizes and use.

import { useState } from 'preact/hooks';
import { all, command, on, plainCommand } from '../../api/command.ts';
import { call, path } from '../../api/http.ts';
import { namespace } from '../../api/names.ts';
import { field, toPlain, type Node } from '../../json/node.ts';
import { brief, compact } from '../../json/print.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { may } from '../../state/session.ts';
import { bytes, count, Shown } from '../../ui/basics.tsx';
import { confirm } from '../../ui/dialog.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { NewIndexDialog } from './new-index.tsx';

interface Index {
  readonly name: string;
  readonly keys: Node | undefined;
  /** The options beside the keys, such as `unique`. */
  readonly options: readonly string[];
  readonly size: number | undefined;
  readonly uses: number | undefined;
  readonly since: string | undefined;
  readonly hidden: boolean;
  readonly unique: boolean;
  /** The names under which `_index` has it. */
  readonly mango: string | undefined;
}

const OPTIONS = ['unique', 'sparse', 'partialFilterExpression', 'expireAfterSeconds', 'collation', 'hidden', 'wildcardProjection', 'prepareUnique'];

async function loadIndexes(db: string, signal: AbortSignal): Promise<Index[]> {
  const { database, collection } = namespace(db);
  const [listed, stats, sizes, mango] = await Promise.all([
    all(...on(db, 'listIndexes', [['cursor', {}]]), signal),
    may('indexStats', db) ? all(database, [['aggregate', collection], ['pipeline', [{ $indexStats: {} }]], ['cursor', {}]], signal) : [],
    may('collStats', db) ? command(...on(db, 'collStats'), signal) : undefined,
    call<{ indexes: { ddoc: string | null; name: string; type: string }[] }>('GET', path(db, '_index'), { signal }),
  ]);
  return listed.map((node): Index => {
    const name = textOf(field(node, 'name')) ?? '';
    const used = stats.find((each) => textOf(field(each, 'name')) === name);
    const accesses = used && (toPlain(field(used, 'accesses') ?? used) as { ops: number; since: { $date: string } });
    const size = field(field(sizes, 'indexSizes'), name);
    const asMango = mango.indexes.find((each) => each.name === name);
    return {
      name,
      keys: field(node, 'key'),
      options: OPTIONS.flatMap((option) => {
        const value = field(node, option);
        return value === undefined ? [] : [value.kind === 'boolean' ? option : `${option} ${brief(value)}`];
      }),
      size: size?.kind === 'number' ? Number(size.text) : undefined,
      uses: accesses?.ops,
      since: accesses?.since.$date,
      hidden: field(node, 'hidden')?.kind === 'boolean',
      unique: field(node, 'unique')?.kind === 'boolean',
      mango: asMango && (asMango.ddoc === null ? asMango.type : `${asMango.ddoc} ${asMango.name}`),
    };
  });
}

function textOf(node: Node | undefined): string | undefined {
  return node?.kind === 'string' ? node.value : undefined;
}

export function IndexesPage({ db }: DatabasePageProps) {
  const loaded = useLoad((signal) => loadIndexes(db, signal), [db]);
  const [creating, setCreating] = useState(false);
  const drop = async (index: Index) => {
    const text = 'Queries that use it read all documents from now on.';
    if (!(await confirm({ title: `Delete the index ${index.name}?`, text, action: 'Delete', dangerous: true }))) return;
    await change(() => plainCommand(...on(db, 'dropIndexes', [['index', index.name]])), `The index ${index.name} is deleted.`);
  };
  const hide = (index: Index) => change(() => plainCommand(...on(db, 'collMod', [['index', { name: index.name, hidden: !index.hidden }]])), index.hidden ? 'Queries may use the index again.' : 'Queries do not use the index now. It is kept up to date.');
  const change = async (work: () => Promise<unknown>, said: string) => {
    try {
      await work();
      done(said);
      loaded.reload();
    } catch (error) {
      failed(error);
    }
  };
  const mayDrop = may('dropIndex', db);
  return (
    <div class="page">
      <div class="toolbar">
        <span class="soft">Both faces use the same indexes.</span>
        <span class="space" />
        {may('createIndex', db) && (
          <button type="button" class="primary" onClick={() => setCreating(true)}>
            New index
          </button>
        )}
      </div>
      <Shown of={loaded}>
        {(indexes) => (
          <div class="wide-table panel" role="region" aria-label="Indexes" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Keys</th>
                  <th scope="col">Options</th>
                  <th scope="col">In _index</th>
                  <th scope="col" class="number">
                    Size
                  </th>
                  <th scope="col" class="number">
                    Uses
                  </th>
                  <th scope="col">
                    <span class="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {indexes.map((index) => (
                  <tr key={index.name}>
                    <th scope="row" class="mono">
                      {index.name}
                    </th>
                    <td>
                      <code>{index.keys && compact(index.keys)}</code>
                    </td>
                    <td>
                      {index.options.map((option) => (
                        <span key={option} class="badge">
                          {option}
                        </span>
                      ))}
                    </td>
                    <td class="mono">{index.mango}</td>
                    <td class="number">{bytes(index.size)}</td>
                    <td class="number">
                      {index.uses === 0 && index.name !== '_id_' ? <span class="badge warning" title={`Since ${index.since}`}>never</span> : count(index.uses)}
                    </td>
                    <td>
                      {mayDrop && index.name !== '_id_' && (
                        <span class="toolbar">
                          {may('collMod', db) && (
                            <button type="button" onClick={() => hide(index)} aria-label={`${index.hidden ? 'Show' : 'Hide'} ${index.name}`}>
                              {index.hidden ? 'Show' : 'Hide'}
                            </button>
                          )}
                          <button type="button" onClick={() => drop(index)} aria-label={`Delete ${index.name}`}>
                            Delete
                          </button>
                        </span>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Shown>
      <p class="soft">“Uses” counts queries since the server started. Hide an index to see how queries run without it, before you delete it.</p>
      {creating && (
        <NewIndexDialog
          db={db}
          onClose={(created) => {
            setCreating(false);
            if (created) loaded.reload();
          }}
        />
      )}
    </div>
  );
}
