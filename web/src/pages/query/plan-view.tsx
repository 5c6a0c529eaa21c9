// A plan as a picture: what each stage reads and returns, from the collection at the bottom to the results on top.

import { useState } from 'preact/hooks';
import { on, plainCommand } from '../../api/command.ts';
import { fromPlain, object, type Entry } from '../../json/node.ts';
import { pretty } from '../../json/print.ts';
import { done, failed } from '../../state/notices.ts';
import { may } from '../../state/session.ts';
import { count, duration } from '../../ui/basics.tsx';
import { indexName, proposeIndex, shownKeys, type IndexKeys } from './propose.ts';
import type { Plan, PlanStage } from './plan.ts';
import type { Parsed } from './request.ts';

/** What stages do, for those who do not know their names. */
const MEANINGS: Record<string, string> = {
  COLLSCAN: 'reads all documents',
  IXSCAN: 'reads an index',
  FETCH: 'reads the documents',
  SORT: 'sorts in memory',
  LIMIT: 'ends after some',
  SKIP: 'leaves some out',
  OR: 'joins several inputs',
  COUNT: 'counts',
  COUNT_SCAN: 'counts keys of an index',
  EXPRESS_IXSCAN: 'reads one document by its key',
  IDHACK: 'reads one document by its id',
  PROJECTION_SIMPLE: 'chooses fields',
  PROJECTION_COVERED: 'takes fields from the index',
  PROJECTION_DEFAULT: 'computes fields',
  EOF: 'returns nothing',
};

interface Props {
  db: string;
  query: Parsed;
  plan: Plan;
  /** Called when an index has been created. */
  onIndex: () => void;
}

export function PlanView({ db, query, plan, onIndex }: Props) {
  const proposed = proposeIndex(query, plan);
  const most = Math.max(1, plan.docsExamined ?? 0, plan.keysExamined ?? 0);
  return (
    <div class="plan">
      <dl class="figures">
        <Figure name="Time" value={duration(plan.millis)} />
        <Figure name="Keys examined" value={count(plan.keysExamined)} />
        <Figure name="Documents examined" value={count(plan.docsExamined)} />
        {plan.returned !== undefined && <Figure name="Returned" value={count(plan.returned)} />}
      </dl>
      {proposed && <Proposal db={db} keys={proposed} plan={plan} onIndex={onIndex} />}
      <div class="plan-picture" role="region" aria-label="Stages of the plan" tabIndex={0}>
        <Stage stage={plan.root} most={most} />
      </div>
      <details>
        <summary>The whole answer</summary>
        <pre class="panel">{pretty(plan.answer)}</pre>
      </details>
    </div>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Stage({ stage, most }: { stage: PlanStage; most: number }) {
  const examined = Math.max(stage.docsExamined ?? 0, stage.keysExamined ?? 0);
  const isScan = stage.name === 'COLLSCAN';
  return (
    <div class="plan-stage">
      <div class={isScan ? 'plan-box scan' : stage.index ? 'plan-box index' : 'plan-box'}>
        <strong>{stage.name}</strong> <span class="soft">{MEANINGS[stage.name]}</span>
        {stage.details.map(([name, value]) => (
          <div key={name} class="plan-detail">
            {name && <span class="soft">{name} </span>}
            <code>{value}</code>
          </div>
        ))}
        {examined > 0 && (
          <div class="plan-examined">
            <meter min={0} max={most} value={examined} aria-label={`${stage.name} examined ${count(examined)}`} />
            <span>
              {stage.keysExamined ? `${count(stage.keysExamined)} keys ` : ''}
              {stage.docsExamined ? `${count(stage.docsExamined)} documents` : ''} examined
            </span>
          </div>
        )}
      </div>
      {stage.inputs.length > 0 && (
        <div class="plan-inputs">
          {stage.inputs.map((input, index) => (
            <div key={index} class="plan-input">
              <div class="plan-arrow">
                <span aria-hidden="true">↑</span> {input.returned !== undefined && `${count(input.returned)} ${input.returned === 1 ? 'document' : 'documents'}`}
              </div>
              <Stage stage={input} most={most} />
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

function Proposal({ db, keys, plan, onIndex }: { db: string; keys: IndexKeys; plan: Plan; onIndex: () => void }) {
  const [busy, setBusy] = useState(false);
  const create = async () => {
    setBusy(true);
    try {
      const key = object(keys.map(([name, direction]): Entry => [name, fromPlain(direction)]));
      const index = object([['key', key], ['name', fromPlain(indexName(keys))]]);
      await plainCommand(...on(db, 'createIndexes', [['indexes', { kind: 'array', items: [index] }]]));
      done(`The index ${indexName(keys)} is ready.`);
      onIndex();
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="warning-box toolbar">
      <span>
        The query examines {count(plan.docsExamined)} documents and needs few of them. The index <code>{shownKeys(keys)}</code> would find these.
      </span>
      {may('createIndex', db) && (
        <button type="button" disabled={busy} onClick={create}>
          {busy ? 'Creating…' : 'Create this index'}
        </button>
      )}
    </div>
  );
}
