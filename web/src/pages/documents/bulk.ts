// Edits and deletes many documents, step by step.

import { call, path } from '../../api/http.ts';
import { command, on } from '../../api/command.ts';
import { array, boolean, field, number, object, type Node } from '../../json/node.ts';
import { idText } from '../../json/ids.ts';
import type { Report } from './run.ts';
import { both, idIn, idSteps, scopeFilter, type Scope } from './scope.ts';

/** What a run has done so far. */
export interface Outcome {
  /** Documents that were edited or deleted. */
  readonly changed: number;
  /** Documents that stay as they are, because the update changes nothing or they no longer match. */
  readonly unchanged: number;
  readonly refused: readonly { readonly id: string; readonly reason: string }[];
}

/** The refused documents that are kept for the report. */
const MOST_REFUSED = 1000;

/** Checks that a value is an update for many documents. Returns what is wrong with it. */
export function updateProblem(update: Node): string | undefined {
  if (update.kind === 'array') return undefined;
  if (update.kind !== 'object' || update.entries.length === 0) return 'An update is an object with operators: { $set: { checked: true } }';
  const plain = update.entries.find(([name]) => !name.startsWith('$'));
  return plain && `“${plain[0]}” is not an operator. To set a field, write { $set: { ${plain[0]}: … } }`;
}

/** Runs an update on each document of a scope. */
export async function updateAll(db: string, scope: Scope, update: Node, total: number, signal: AbortSignal, report: Report, result: (outcome: Outcome) => void): Promise<void> {
  const filter = scope.kind === 'filter' ? scopeFilter(scope, false) : undefined;
  const statement = (ids: readonly Node[]) => object([['q', both(filter, idIn(ids))], ['u', update], ['multi', boolean(true)]]);
  const run = async (statements: readonly Node[]) => {
    const reply = await command(...on(db, 'update', [['updates', array(statements)], ['ordered', false]]), signal);
    return { changed: numberOf(field(reply, 'nModified')), errors: errorsOf(reply) };
  };
  await stepwise(db, scope, total, signal, report, result, async (ids) => {
    const together = await run([statement(ids)]);
    if (together.errors.length === 0) return { changed: together.changed, refused: [] };
    // A refused document stops the others of its statement: each gets its own.
    const single = await run(ids.map((id) => statement([id])));
    return { changed: together.changed + single.changed, refused: single.errors.map(({ index, reason }) => ({ id: idText(ids[index]!), reason })) };
  });
}

/** Deletes each document of a scope. Selected documents are deleted only if they are still what the person saw. */
export async function deleteAll(db: string, scope: Scope, total: number, signal: AbortSignal, report: Report, result: (outcome: Outcome) => void): Promise<void> {
  if (scope.kind === 'ids') {
    await stepwise(db, scope, total, signal, report, result, async (ids) => {
      const docs = ids.map((id) => ({ _id: idText(id), _rev: scope.ids.get(idText(id)), _deleted: true }));
      const answers = await call<{ id: string; ok?: boolean; error?: string; reason?: string }[]>('POST', path(db, '_bulk_docs'), { json: { docs }, signal });
      const refused = answers.filter(({ ok }) => !ok).map(({ id, error, reason }) => ({ id, reason: error === 'conflict' ? 'It was changed meanwhile.' : (reason ?? error ?? '') }));
      return { changed: answers.length - refused.length, refused };
    });
    return;
  }
  const filter = scopeFilter(scope, false);
  await stepwise(db, scope, total, signal, report, result, async (ids) => {
    const statement = object([['q', both(filter, idIn(ids))], ['limit', number(0)]]);
    const reply = await command(...on(db, 'delete', [['deletes', array([statement])], ['ordered', false]]), signal);
    return { changed: numberOf(field(reply, 'n')), refused: errorsOf(reply).map(({ reason }) => ({ id: `${ids.length} documents`, reason })) };
  });
}

interface Step {
  readonly changed: number;
  readonly refused: Outcome['refused'];
}

async function stepwise(db: string, scope: Scope, total: number, signal: AbortSignal, report: Report, result: (outcome: Outcome) => void, act: (ids: readonly Node[]) => Promise<Step>): Promise<void> {
  let outcome: Outcome = { changed: 0, unchanged: 0, refused: [] };
  let done = 0;
  result(outcome);
  for await (const ids of idSteps(db, scope, signal)) {
    if (signal.aborted) return;
    if (ids.length === 0) continue;
    const { changed, refused } = await act(ids);
    done += ids.length;
    outcome = {
      changed: outcome.changed + changed,
      unchanged: outcome.unchanged + Math.max(0, ids.length - changed - refused.length),
      refused: [...outcome.refused, ...refused].slice(0, MOST_REFUSED),
    };
    result(outcome);
    report(done, Math.max(total, done));
  }
}

function numberOf(node: Node | undefined): number {
  return node?.kind === 'number' ? Number(node.text) : 0;
}

function errorsOf(reply: Node): { index: number; reason: string }[] {
  const errors = field(reply, 'writeErrors');
  if (errors?.kind !== 'array') return [];
  return errors.items.map((error) => {
    const message = field(error, 'errmsg');
    return { index: numberOf(field(error, 'index')), reason: message?.kind === 'string' ? message.value : 'refused' };
  });
}
