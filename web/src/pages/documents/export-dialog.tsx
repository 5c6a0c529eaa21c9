// The dialog that exports documents to a file.

import { useState } from 'preact/hooks';
import { failed } from '../../state/notices.ts';
import { useLoad } from '../../state/load.ts';
import { count, ErrorBox, Progress } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Footer } from './bulk-dialog.tsx';
import { openSink } from './files/download.ts';
import { exportDocuments, forms, type ExportForm } from './files/export.ts';
import { useRun } from './run.ts';
import { countScope, scopeText, type Scope } from './scope.ts';

export function ExportDialog({ db, scope, onClose }: { db: string; scope: Scope; onClose: () => void }) {
  const [form, setForm] = useState<ExportForm>('json');
  const [withDesign, setWithDesign] = useState(false);
  const counted = useLoad((signal) => countScope(db, scope, withDesign, signal), [db, scope, withDesign]);
  const run = useRun<number>('The export');
  const begin = async () => {
    const name = `${db.replaceAll(/[^\p{L}\p{N}._-]+/gu, '-')}.${forms[form].ending}`;
    const sink = await openSink(name, forms[form].type);
    if (sink) run.start((signal, report, result) => exportDocuments(db, scope, form, withDesign, sink, signal, report, result));
  };
  return (
    <Dialog title={`Export ${scopeText(scope)}`} onClose={() => (run.state === 'running' ? run.cancel() : onClose())}>
      <div class="dialog-body">
        {run.state === 'idle' && (
          <>
            <fieldset>
              <legend>Form of the file</legend>
              {(Object.keys(forms) as ExportForm[]).map((each) => (
                <label key={each} class="choice">
                  <input type="radio" name="export-form" checked={form === each} onChange={() => setForm(each)} />
                  <span>
                    {forms[each].label}
                    <br />
                    <small class="soft">{forms[each].hint}</small>
                  </span>
                </label>
              ))}
            </fieldset>
            {scope.kind === 'filter' && !scope.filter && (
              <label class="check">
                <input type="checkbox" checked={withDesign} onChange={(event) => setWithDesign(event.currentTarget.checked)} />
                Design documents, too
              </label>
            )}
            <p class="soft">The file has the documents as they are now, without attachments and earlier revisions.</p>
          </>
        )}
        {run.state === 'running' && <Progress label={`Exported ${count(run.result ?? 0)}`} done={run.done} total={run.total} />}
        {run.state === 'failed' && <ErrorBox error={run.error} />}
        {(run.state === 'finished' || run.state === 'cancelled') && (
          <p role="status">{run.state === 'cancelled' ? 'Cancelled. No file was written.' : `${count(run.result ?? 0)} documents exported.`}</p>
        )}
      </div>
      <Footer run={run} label={counted.value === undefined ? 'Export' : `Export ${count(counted.value)}`} disabled={counted.value === undefined} onClose={onClose} onStart={() => begin().catch(failed)} />
    </Dialog>
  );
}
