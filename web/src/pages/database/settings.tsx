// The settings of a database: sizes, who may use it, limits, and the ways to rename or delete it.

import { useState } from 'preact/hooks';
import { call, path } from '../../api/http.ts';
import { namespace } from '../../api/names.ts';
import { loadDatabases } from '../../state/databases.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { may } from '../../state/session.ts';
import { bytes, count, Field, Form, Shown } from '../../ui/basics.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { Rename, Removal } from './removal.tsx';
import { SecurityForm } from './security.tsx';
import { Validator } from './validator.tsx';

interface Info {
  readonly doc_count: number;
  readonly doc_del_count: number;
  readonly update_seq: string;
  readonly sizes: { readonly active: number; readonly external: number; readonly file: number };
  readonly props: { readonly partitioned?: boolean };
  readonly compact_running: boolean;
}

export function DatabaseSettings({ db }: DatabasePageProps) {
  const info = useLoad((signal) => call<Info>('GET', path(db), { signal }), [db]);
  const { database, collection } = namespace(db);
  const isSystem = db.startsWith('_');
  const isKeeper = may('collMod', db);
  const compact = async () => {
    try {
      await call('POST', path(db, '_compact'), { json: {} });
      done('The compaction runs.');
      info.reload();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <div class="page">
      <div class="settings-sections">
        <section class="panel" aria-label="About this database">
          <h2>About this database</h2>
          <Shown of={info}>
            {({ doc_count, doc_del_count, update_seq, sizes, props, compact_running }) => (
              <dl class="facts">
                <dt>Name over HTTP</dt>
                <dd class="mono">{db}</dd>
                <dt>For MongoDB’s drivers</dt>
                <dd class="mono">
                  {database}.{collection}
                </dd>
                <dt>Documents</dt>
                <dd>
                  {count(doc_count)}, and {count(doc_del_count)} deleted
                </dd>
                <dt>Size of the documents</dt>
                <dd>{bytes(sizes.external)}</dd>
                <dt>Size in the store</dt>
                <dd>{bytes(sizes.file)}</dd>
                <dt>Sequence</dt>
                <dd class="mono">{update_seq}</dd>
                {props.partitioned && (
                  <>
                    <dt>Partitioned</dt>
                    <dd>yes</dd>
                  </>
                )}
                {compact_running && (
                  <>
                    <dt>Compaction</dt>
                    <dd>runs now</dd>
                  </>
                )}
              </dl>
            )}
          </Shown>
          {isKeeper && (
            <p class="section-end">
              <button type="button" onClick={compact}>
                Compact
              </button>{' '}
              <span class="soft">Frees the space of old revisions.</span>
            </p>
          )}
        </section>
        <SecurityForm key={`security ${db}`} db={db} />
        <RevisionLimit key={`limit ${db}`} db={db} readOnly={!isKeeper} />
        {may('listCollections', db) && <Validator key={`validator ${db}`} db={db} readOnly={!isKeeper} />}
        {!isSystem && may('renameCollectionSameDB', db) && <Rename db={db} />}
        {may('dropCollection', db) && <Removal db={db} onGone={() => loadDatabases().catch(failed)} />}
      </div>
    </div>
  );
}

function RevisionLimit({ db, readOnly }: { db: string; readOnly: boolean }) {
  const loaded = useLoad((signal) => call<number>('GET', path(db, '_revs_limit'), { signal }), [db]);
  const [text, setText] = useState<string>();
  const save = async () => {
    try {
      await call('PUT', path(db, '_revs_limit'), { json: text?.trim() });
      done('Saved.');
      setText(undefined);
      loaded.reload();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <section class="panel" aria-label="Revisions">
      <h2>Revisions</h2>
      <Shown of={loaded}>
        {(limit) => (
          <Form onSubmit={save} label="Revisions">
            <Field label="Revisions of a document that are remembered" hint="Replication finds the common ancestor of two copies among them.">
              {(id) => <input id={id} inputMode="numeric" readOnly={readOnly} value={text ?? String(limit)} onInput={(event) => setText(event.currentTarget.value)} />}
            </Field>
            {!readOnly && <button disabled={text === undefined || text.trim() === String(limit)}>Save the limit</button>}
          </Form>
        )}
      </Shown>
    </section>
  );
}
