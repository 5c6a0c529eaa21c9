// The editor of one function. A view can be tried before it is saved.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { ObjectNode } from '../../json/node.ts';
import { may } from '../../state/session.ts';
import { ErrorBox, Segments } from '../../ui/basics.tsx';
import { Editor, type Problem } from '../../ui/editor.tsx';
import { reduceOf, SINGLE, sourceOf, withSource, type FunctionName } from './functions.ts';
import { findSyntaxFault, problemsOf, runTrial, type Fault, type Trial } from './trial.ts';
import { FaultText, TrialView } from './trial-view.tsx';
import { ViewRows } from './view-rows.tsx';

interface Props {
  db: string;
  design: string;
  body: ObjectNode;
  edited: FunctionName;
  readOnly: boolean;
  /** Whether the design document has changes that are not saved. */
  isChanged: boolean;
  onChange: (body: ObjectNode) => void;
}

interface Found {
  readonly map: { readonly source: string; readonly problems: readonly Problem[] };
  readonly reduce?: Found['map'];
  /** What the check of a function that is no view has found. */
  readonly syntax?: Fault | 'none';
}

const NONE: readonly Problem[] = [];

/** The documents of a trial. */
const SAMPLE = 50;

export function FunctionEditor({ db, design, body, edited, readOnly, isChanged, onChange }: Props) {
  const isView = edited.group === 'views';
  const source = sourceOf(body, edited);
  const reduce = isView ? reduceOf(body, edited.name) : '';
  const [trial, setTrial] = useState<Trial>();
  const [found, setFound] = useState<Found>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [id, setId] = useState('');
  const [shown, setShown] = useState<'trial' | 'rows'>('trial');
  const aborter = useRef<AbortController>(undefined);
  useEffect(() => () => aborter.current?.abort(), []);
  const mayTry = may('collMod', db);
  // The answer may be about a source that has been changed since.
  const problems = (own: string, of: Found['map'] | undefined) => (of?.source === own ? of.problems : NONE);
  const syntax = found?.map.source === source ? found.syntax : undefined;

  const run = async () => {
    if (!mayTry) return;
    aborter.current?.abort();
    const own = new AbortController();
    aborter.current = own;
    setBusy(true);
    setError(undefined);
    setShown('trial');
    try {
      if (!isView) {
        const fault = await findSyntaxFault(db, source, own.signal);
        setFound({ map: { source, problems: problemsOf(source, [fault]) }, syntax: fault ?? 'none' });
        return;
      }
      const made = await runTrial(db, source, reduce, id.trim() === '' ? { sample: SAMPLE } : { id: id.trim() }, own.signal);
      setTrial(made);
      setFound({
        map: { source, problems: problemsOf(source, [made.mapFault, ...made.documents.map(({ fault }) => fault)]) },
        reduce: { source: reduce, problems: problemsOf(reduce, [made.reduceFault]) },
      });
    } catch (caught) {
      if (!own.signal.aborted) setError(caught);
    } finally {
      if (!own.signal.aborted) setBusy(false);
    }
  };

  return (
    <div class="function-editor">
      <h2 class="mono">{edited.group === SINGLE ? SINGLE : edited.name}</h2>
      <Editor
        value={source}
        language="javascript"
        label={isView ? 'Map function' : 'Function'}
        readOnly={readOnly}
        lines={isView ? 8 : 14}
        problems={problems(source, found?.map)}
        onChange={(text) => onChange(withSource(body, edited, text, isView ? reduce : undefined))}
        onRun={run}
      />
      {!isView && mayTry && (
        <div class="toolbar">
          <button type="button" disabled={busy} onClick={run}>
            {busy ? 'Checking…' : 'Check the syntax'}
          </button>
          <span role="status">{syntax === 'none' ? 'The syntax is right.' : syntax && <FaultText fault={syntax} />}</span>
        </div>
      )}
      {isView && (
        <>
          <div class="toolbar">
            <span>Reduce</span>
            {['', '_sum', '_count', '_stats', '_approx_count_distinct'].map((name) => (
              <button key={name} type="button" class="plain" aria-pressed={reduce === name} disabled={readOnly} onClick={() => onChange(withSource(body, edited, source, name))}>
                {name || 'none'}
              </button>
            ))}
          </div>
          <Editor value={reduce} language="javascript" label="Reduce function" readOnly={readOnly} lines={2} problems={problems(reduce, found?.reduce)} onChange={(text) => onChange(withSource(body, edited, source, text))} onRun={run} />
          <div class="toolbar">
            {mayTry && (
              <>
                <button type="button" class="primary" disabled={busy} onClick={run}>
                  {busy ? 'Running…' : 'Try it'}
                </button>
                <input class="mono trial-id" aria-label="Document to try" placeholder={`the first ${SAMPLE} documents, or an id`} value={id} onInput={(event) => setId(event.currentTarget.value)} />
              </>
            )}
            <span class="space" />
            <Segments
              label="What is shown"
              options={[
                ['trial', 'Trial'],
                ['rows', 'Rows of the view'],
              ]}
              value={shown}
              onChange={setShown}
            />
          </div>
          {shown === 'trial' && trial && <TrialView db={db} trial={trial} />}
          {shown === 'rows' && (
            <>
              {isChanged && <p class="warning-box">The rows are those of the saved view: save to see what the change makes of them.</p>}
              <ViewRows db={db} design={design} view={edited.name} reduces={reduce.trim() !== ''} />
            </>
          )}
        </>
      )}
      {error !== undefined && <ErrorBox error={error} />}
    </div>
  );
}
