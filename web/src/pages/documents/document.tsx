// One document: its JSON, its tree, its Extended JSON and its attachments.

import { useMemo, useState } from 'preact/hooks';
import { Failure } from '../../api/http.ts';
import { object } from '../../json/node.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { go, link, place, setQuery } from '../../state/router.ts';
import { may } from '../../state/session.ts';
import { bytes, Empty, Segments, Shown } from '../../ui/basics.tsx';
import { confirm } from '../../ui/dialog.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { Attachments, attachmentsOf } from './attachments.tsx';
import { CanonicalView } from './canonical.tsx';
import { DocumentEditor } from './editor.tsx';
import { NewDocument } from './new.tsx';
import { deleteDocument, loadDocument, type Stored } from './stored.ts';
import { DocumentTree } from './tree.tsx';

type View = 'json' | 'tree' | 'extended' | 'attachments';

export function DocumentPage({ db, rest }: DatabasePageProps) {
  const id = rest.join('/');
  const from = place.value.query.get('from') ?? undefined;
  return <div class="page">{id === '' ? <NewDocument key={`new ${from ?? ''}`} db={db} from={from} /> : <ExistingDocument key={id} db={db} id={id} />}</div>;
}

function ExistingDocument({ db, id }: { db: string; id: string }) {
  const loaded = useLoad((signal) => loadDocument(db, id, signal), [db, id]);
  if (loaded.error instanceof Failure && loaded.error.status === 404 && !loaded.value) {
    const isDeleted = loaded.error.message === 'deleted';
    return (
      <Empty title={isDeleted ? 'This document is deleted' : 'There is no document with this id'}>
        <p class="mono">{id}</p>
        <p class="toolbar centred">
          {isDeleted && <a class="button" href={link(['db', db, 'revisions', id])}>See its revisions</a>}
          {may('insert', db) && <a class="button" href={link(['db', db, 'doc'], { id })}>Create it</a>}
          <a class="button" href={link(['db', db, 'documents'])}>All documents</a>
        </p>
      </Empty>
    );
  }
  if (!loaded.value) return <Shown of={loaded}>{() => null}</Shown>;
  return <Document db={db} stored={loaded.value} reload={loaded.reload} />;
}

function Document({ db, stored, reload }: { db: string; stored: Stored; reload: () => void }) {
  const [deleting, setDeleting] = useState(false);
  const { id, rev } = stored;
  const view = (place.value.query.get('view') ?? 'json') as View;
  const attachments = useMemo(() => attachmentsOf(stored.attachments), [stored]);
  const isDesign = id.startsWith('_design/');
  const mayWrite = isDesign ? may('collMod', db) : may('insert', db) && may('update', db);
  const mayRemove = isDesign ? may('collMod', db) : may('remove', db);

  const remove = async () => {
    const agreed = await confirm({ title: 'Delete this document?', text: `${id}, revision ${rev}`, action: 'Delete', dangerous: true });
    if (!agreed) return;
    setDeleting(true);
    try {
      await deleteDocument(db, id, rev);
      done('Deleted.');
      go(['db', db, 'documents']);
    } catch (error) {
      failed(error instanceof Failure && error.status === 409 ? 'Somebody else has changed the document meanwhile. Look at it again before you delete it.' : error);
      reload();
    } finally {
      setDeleting(false);
    }
  };

  return (
    <>
      <div class="toolbar document-head">
        <h2 class="mono">{id}</h2>
        <span class="soft">
          revision <code class="revision">{rev}</code> · {bytes(stored.length)}
        </span>
        {stored.conflicts.length > 0 && (
          <a class="badge warning" href={link(['db', db, 'revisions', id])}>
            {stored.conflicts.length === 1 ? '1 conflict' : `${stored.conflicts.length} conflicts`}: resolve
          </a>
        )}
        <span class="space" />
        <a class="button" href={link(['db', db, 'revisions', id])}>
          Revisions
        </a>
        {mayWrite && (
          <a class="button" href={link(['db', db, 'doc'], { from: id })}>
            Duplicate
          </a>
        )}
        {mayRemove && (
          <button type="button" disabled={deleting} onClick={remove}>
            Delete
          </button>
        )}
      </div>
      <div class="toolbar">
        <Segments
          label="View of the document"
          options={[
            ['json', 'JSON'],
            ['tree', 'Tree'],
            ['extended', 'Extended JSON'],
            ['attachments', attachments.length > 0 ? `Attachments (${attachments.length})` : 'Attachments'],
          ]}
          value={view}
          onChange={(chosen) => setQuery({ view: chosen === 'json' ? undefined : chosen })}
        />
        {!mayWrite && <span class="soft">You may read this document, but not change it.</span>}
      </div>
      {/* The editor stays while another view is shown, so that its text is kept. */}
      <div class="document-view" hidden={view !== 'json'}>
        <DocumentEditor db={db} id={id} base={stored} readOnly={!mayWrite} onSaved={reload} />
      </div>
      {view === 'tree' && <DocumentTree db={db} node={object(stored.body.entries)} />}
      {view === 'extended' && <CanonicalView db={db} id={id} rev={rev} />}
      {view === 'attachments' && <Attachments db={db} id={id} rev={rev} attachments={attachments} readOnly={!mayWrite} onChanged={reload} />}
    </>
  );
}
