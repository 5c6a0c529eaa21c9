// The dialog that imports documents from a file.

import { useState } from 'preact/hooks';
import { bytes, count, ErrorBox, Field, Progress, Segments } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Footer } from './bulk-dialog.tsx';
import { csvLine } from './files/csv.ts';
import { download } from './files/download.ts';
import { formOf, importFile, type Existing, type FileForm, type Imported } from './files/import.ts';
import { number, string } from '../../json/node.ts';
import { useRun } from './run.ts';

/** Refused documents that the dialog shows; the report has more. */
const SHOWN = 100;

export function ImportDialog({ db, onClose }: { db: string; onClose: (isChanged: boolean) => void }) {
  const [file, setFile] = useState<File>();
  const [form, setForm] = useState<FileForm>('json');
  const [existing, setExisting] = useState<Existing>('skip');
  const [withTypes, setWithTypes] = useState(true);
  const [isOver, setOver] = useState(false);
  const run = useRun<Imported>('The import');
  const choose = (chosen: File | undefined) => {
    if (!chosen) return;
    setFile(chosen);
    setForm(formOf(chosen.name));
  };
  const close = () => onClose(run.state !== 'idle');
  const { result } = run;
  return (
    <Dialog title={`Import into ${db}`} onClose={() => (run.state === 'running' ? run.cancel() : close())}>
      <div
        class={isOver ? 'dialog-body drop-over' : 'dialog-body'}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          if (run.state === 'idle') choose(event.dataTransfer?.files[0]);
        }}
      >
        {run.state === 'idle' && (
          <>
            <Field label="File" hint="A JSON array, one JSON document per line (NDJSON), files of mongoexport, or a CSV table. You can also drop it here.">
              {(id) => <input id={id} type="file" accept=".json,.ndjson,.jsonl,.csv,.tsv,.txt" onChange={(event) => choose(event.currentTarget.files?.[0])} />}
            </Field>
            {file && (
              <p>
                <strong>{file.name}</strong>, {bytes(file.size)}
              </p>
            )}
            <div class="field">
              <span id="import-form" class="label">
                Form of the file
              </span>
              <Segments
                label="Form of the file"
                options={[
                  ['json', 'JSON'],
                  ['csv', 'CSV table'],
                ]}
                value={form}
                onChange={setForm}
              />
            </div>
            {form === 'csv' && (
              <p>
                <label class="check">
                  <input type="checkbox" checked={withTypes} onChange={(event) => setWithTypes(event.currentTarget.checked)} />
                  Guess numbers, truth values, times and JSON in cells
                </label>
                <br />
                <span class="soft">The first line holds the names. A column “_id” holds the ids.</span>
              </p>
            )}
            <Field label="If a document with the same id exists">
              {(id) => (
                <select id={id} value={existing} onChange={(event) => setExisting(event.currentTarget.value as Existing)}>
                  <option value="skip">Keep it and go on</option>
                  <option value="replace">Replace it</option>
                  <option value="refuse">Keep it and report the line</option>
                </select>
              )}
            </Field>
          </>
        )}
        {run.state === 'running' && <Progress label={`Imported ${count(result?.stored ?? 0)}`} done={run.done} total={run.total} />}
        {run.state === 'failed' && <ErrorBox error={run.error} />}
        {run.state !== 'idle' && result && <ImportResult result={result} isRunning={run.state === 'running'} isCancelled={run.state === 'cancelled'} />}
      </div>
      <Footer
        run={run}
        label="Import"
        disabled={!file}
        onClose={close}
        onStart={() => run.start((signal, report, result) => importFile(db, file!, { form, existing, withTypes }, signal, report, result))}
      />
    </Dialog>
  );
}

function ImportResult({ result, isRunning, isCancelled }: { result: Imported; isRunning: boolean; isCancelled: boolean }) {
  const save = () => {
    const lines = result.report.map(({ line, id, reason }) => csvLine([number(line), string(id), string(reason)]));
    download('refused.csv', 'text/csv', [csvLine([string('line'), string('id'), string('reason')]), ...lines]);
  };
  return (
    <>
      {!isRunning && (
        <p role="status">
          {isCancelled && 'Cancelled. '}
          {count(result.stored)} imported
          {result.skipped > 0 && `, ${count(result.skipped)} existed already`}
          {result.refused > 0 && `, ${count(result.refused)} refused`}.
        </p>
      )}
      {result.report.length > 0 && (
        <>
          <div class="refused-table" role="region" aria-label="Refused documents" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col" class="number">
                    Line
                  </th>
                  <th scope="col">Document</th>
                  <th scope="col">Reason</th>
                </tr>
              </thead>
              <tbody>
                {result.report.slice(0, SHOWN).map(({ line, id, reason }, index) => (
                  <tr key={index}>
                    <td class="number">{line > 0 ? line : ''}</td>
                    <td class="mono">{id}</td>
                    <td>{reason}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {!isRunning && (
            <button type="button" onClick={save}>
              Download the report
            </button>
          )}
        </>
      )}
    </>
  );
}
