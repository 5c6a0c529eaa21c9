// The dialogs that edit and delete many documents. Both count first.

import { useState } from 'preact/hooks';
import { parseShell, ParseError } from '../../json/parse.ts';
import type { Node } from '../../json/node.ts';
import { useLoad } from '../../state/load.ts';
import { count, ErrorBox, Field, Progress, Shown } from '../../ui/basics.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Editor, type Problem } from '../../ui/editor.tsx';
import { deleteAll, updateAll, updateProblem, type Outcome } from './bulk.ts';
import { useRun, type Run } from './run.ts';
import { countScope, scopeText, type Scope } from './scope.ts';

interface BulkProps {
  db: string;
  scope: Scope;
  /** `isChanged` says whether documents may have changed. */
  onClose: (isChanged: boolean) => void;
}

/** Deleting more documents than this needs their number to be typed. */
const TYPED_FROM = 20;

const noun = (number: number) => `${count(number)} ${number === 1 ? 'document' : 'documents'}`;

function checkUpdate(text: string): { update: Node; problems: Problem[] } | { update?: undefined; problems: Problem[] } {
  try {
    const update = parseShell(text);
    const message = updateProblem(update);
    return message ? { problems: [{ from: 0, to: text.length, message }] } : { update, problems: [] };
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    return { problems: [{ from: error.offset, to: error.offset + 1, message: error.message }] };
  }
}

export function BulkEdit({ db, scope, onClose }: BulkProps) {
  const counted = useLoad((signal) => countScope(db, scope, false, signal), [db, scope]);
  const [text, setText] = useState('{ $set: {  } }');
  const run = useRun<Outcome>('The edit');
  const { update, problems } = checkUpdate(text);
  const close = () => onClose(run.state !== 'idle');
  return (
    <Dialog title={`Edit ${scopeText(scope)}`} wide onClose={() => (run.state === 'running' ? run.cancel() : close())}>
      <div class="dialog-body">
        <Shown of={counted}>
          {(total) => (
            <>
              <p>
                <strong>{noun(total)}</strong> {total === 1 ? 'is' : 'are'} edited by an update of MongoDB. Design documents are left out.
              </p>
              <Editor value={text} onChange={setText} language="shell" label="Update" lines={5} readOnly={run.state === 'running'} check={(typed) => checkUpdate(typed).problems} />
              <p class="soft">
                For example <code>{'{ $set: { checked: true }, $unset: { old: 1 }, $inc: { visits: 1 } }'}</code>, or a pipeline <code>{'[{ $set: { total: { $sum: "$items.price" } } }]'}</code>
              </p>
              {run.state === 'idle' && problems.length > 0 && <p class="soft">{problems[0]!.message}</p>}
              <RunState run={run} verb="Edited" />
            </>
          )}
        </Shown>
      </div>
      <Footer
        run={run}
        onClose={close}
        label={counted.value === undefined ? 'Edit' : `Edit ${noun(counted.value)}`}
        disabled={!update || !counted.value}
        onStart={() => run.start((signal, report, result) => updateAll(db, scope, update!, counted.value!, signal, report, result))}
      />
    </Dialog>
  );
}

export function BulkDelete({ db, scope, onClose }: BulkProps) {
  const counted = useLoad((signal) => countScope(db, scope, false, signal), [db, scope]);
  const [typed, setTyped] = useState('');
  const run = useRun<Outcome>('The deletion');
  const total = counted.value;
  const needsTyping = total !== undefined && total > TYPED_FROM;
  const isTyped = !needsTyping || typed.replace(/\D/g, '') === String(total);
  const close = () => onClose(run.state !== 'idle');
  return (
    <Dialog title={`Delete ${scopeText(scope)}`} onClose={() => (run.state === 'running' ? run.cancel() : close())}>
      <div class="dialog-body">
        <Shown of={counted}>
          {(total) => (
            <>
              <p>
                <strong>{noun(total)}</strong> {total === 1 ? 'is' : 'are'} deleted.{' '}
                {scope.kind === 'filter' ? 'Conflicting revisions are deleted, too. Design documents are left out.' : 'A document that somebody changes meanwhile is left out.'} There is no way back.
              </p>
              {needsTyping && run.state === 'idle' && (
                <Field label={`Type ${total} to confirm`}>{(id) => <input id={id} inputMode="numeric" autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />}</Field>
              )}
              <RunState run={run} verb="Deleted" />
            </>
          )}
        </Shown>
      </div>
      <Footer
        run={run}
        onClose={close}
        dangerous
        label={total === undefined ? 'Delete' : `Delete ${noun(total)}`}
        disabled={!total || !isTyped}
        onStart={() => run.start((signal, report, result) => deleteAll(db, scope, total!, signal, report, result))}
      />
    </Dialog>
  );
}

function RunState({ run, verb }: { run: Run<Outcome>; verb: string }) {
  const { state, result, error } = run;
  if (state === 'idle') return null;
  const refused = result?.refused ?? [];
  return (
    <div class="run-state">
      {state === 'running' && <Progress label={`${verb} ${count(run.done)}`} done={run.done} total={run.total} />}
      {state === 'failed' && <ErrorBox error={error} />}
      {state !== 'running' && (
        <p role="status">
          {state === 'cancelled' && 'Cancelled. '}
          {verb} {noun(result?.changed ?? 0)}.{result !== undefined && result.unchanged > 0 && ` ${noun(result.unchanged)} stayed as before.`}
        </p>
      )}
      {refused.length > 0 && (
        <>
          <p>{refused.length === 1 ? '1 was refused:' : `${count(refused.length)} were refused:`}</p>
          <ul class="refused">
            {refused.slice(0, 50).map(({ id, reason }, index) => (
              <li key={index}>
                <code>{id}</code>: {reason}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

interface FooterProps {
  run: Pick<Run<unknown>, 'state' | 'cancel'>;
  label: string;
  disabled: boolean;
  dangerous?: boolean;
  onStart: () => void;
  onClose: () => void;
}

/** The buttons of a dialog with a long work. */
export function Footer({ run, label, disabled, dangerous, onStart, onClose }: FooterProps) {
  return (
    <footer>
      {run.state === 'running' ? (
        <button type="button" onClick={run.cancel}>
          Cancel
        </button>
      ) : (
        <button type="button" onClick={onClose}>
          Close
        </button>
      )}
      {run.state === 'idle' && (
        <button type="button" class={dangerous ? 'danger' : 'primary'} disabled={disabled} onClick={onStart}>
          {label}
        </button>
      )}
    </footer>
  );
}
