// The revisions of a document: the tree, two of them side by side, and the end of a conflict.

import { Failure } from '../../api/http.ts';
import { useLoad } from '../../state/load.ts';
import { go, link, place, setQuery } from '../../state/router.ts';
import { Empty, ErrorBox, Shown } from '../../ui/basics.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { loadBranches } from './branches.ts';
import { Compare } from './compare.tsx';
import { TreeView } from './tree-view.tsx';
import { inOrder, type Branch } from './tree.ts';

export function RevisionsPage({ db, rest }: DatabasePageProps) {
  const id = rest.join('/');
  return (
    <div class="page revisions">
      <div class="toolbar document-head">
        <h2 class="mono">{id}</h2>
        <span class="space" />
        <a class="button" href={link(['db', db, 'doc', id])}>
          The document
        </a>
        <a class="button" href={link(['db', db, 'conflicts'])}>
          All conflicts
        </a>
      </div>
      <Revisions key={id} db={db} id={id} />
    </div>
  );
}

function Revisions({ db, id }: { db: string; id: string }) {
  const loaded = useLoad((signal) => loadBranches(db, id, signal), [db, id]);
  if (loaded.error instanceof Failure && loaded.error.status === 404) return <Empty title="There is no document with this id" />;
  const branches = loaded.value;
  if (!branches) return <Shown of={loaded}>{() => null}</Shown>;
  if (branches.length === 0) return <Empty title="There is no document with this id" />;
  return (
    <>
      {loaded.error && <ErrorBox error={loaded.error} retry={loaded.reload} />}
      <Tree db={db} id={id} branches={inOrder(branches)} reload={loaded.reload} />
    </>
  );
}

function Tree({ db, id, branches, reload }: { db: string; id: string; branches: readonly Branch[]; reload: () => void }) {
  const open = branches.filter(({ deleted }) => !deleted);
  const winner = branches[0]!;
  const second = open[1]?.rev ?? winner.path[1];
  const all = [...new Set(branches.flatMap(({ path }) => path))];
  const chosen = (side: 'left' | 'right') => all.find((rev) => rev === place.value.query.get(side));
  const left = chosen('left') ?? winner.rev;
  const right = chosen('right') ?? second;
  // As a change of the address, it is asked about while a merge is not saved.
  const show = (sides: { left: string; right: string | undefined }) => go(['db', db, 'revisions', id], sides);
  const picker = (label: string, value: string | undefined, choose: (rev: string) => void) => (
    <label class="check">
      {label}
      <select
        class="mono"
        value={value}
        onChange={(event) => {
          const wanted = event.currentTarget.value;
          // It shows the other one when that is agreed to.
          event.currentTarget.value = value ?? '';
          choose(wanted);
        }}
      >
        {value === undefined && <option value="">none</option>}
        {all.map((rev) => (
          <option key={rev} value={rev}>
            {rev}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <p class="soft" role="status">
        {open.length > 1 ? `${open.length} revisions are in conflict. The first line is the winner: it is what programs read.` : open.length === 1 ? 'No conflict.' : 'The document is deleted.'} Choose a revision to see it on the right.
      </p>
      <TreeView branches={branches} left={left} right={right} onChoose={(rev) => show({ left, right: rev })} />
      <div class="toolbar">
        {picker('Left', left, (rev) => show({ left: rev, right }))}
        {picker('Right', right, (rev) => show({ left, right: rev }))}
      </div>
      {right === undefined ? (
        <p class="soft">The document has one revision only.</p>
      ) : (
        <Compare
          key={`${left} ${right}`}
          db={db}
          id={id}
          branches={branches}
          left={left}
          right={right}
          onResolved={() => {
            setQuery({ left: undefined, right: undefined });
            reload();
          }}
        />
      )}
    </>
  );
}
