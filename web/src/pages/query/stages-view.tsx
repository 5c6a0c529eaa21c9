// The first documents after each stage of a pipeline.

import { useMemo } from 'preact/hooks';
import { compact, pretty } from '../../json/print.ts';
import type { ObjectNode } from '../../json/node.ts';
import { useLoad, useSettled } from '../../state/load.ts';
import { Shown } from '../../ui/basics.tsx';
import { emptyQuery, parseQuery, QueryProblem } from './request.ts';
import { afterStage } from './results.ts';

/** The documents that are shown after a stage. */
const MOST = 3;

const TITLE_LENGTH = 160;

export function StagesView({ db, text }: { db: string; text: string }) {
  const settled = useSettled(text, 500);
  const stages = useMemo(() => stagesOf(settled), [settled]);
  if (!stages) return <p class="soft">The stages are shown when the pipeline can be read.</p>;
  return (
    <ol class="stage-list" aria-label="Stages of the pipeline">
      <li>
        <h3>The documents</h3>
        <After db={db} stages={stages} count={0} />
      </li>
      {stages.map((stage, index) => (
        <li key={index}>
          <h3 class="mono">{titleOf(stage)}</h3>
          {['$out', '$merge'].includes(stage.entries[0]![0]) ? <p class="soft">Writes the documents of the stage before. Nothing is written here.</p> : <After db={db} stages={stages} count={index + 1} />}
        </li>
      ))}
    </ol>
  );
}

function stagesOf(text: string): readonly ObjectNode[] | undefined {
  try {
    const query = parseQuery({ ...emptyQuery('pipeline'), text });
    return query.kind === 'pipeline' ? query.stages : undefined;
  } catch (error) {
    if (error instanceof QueryProblem) return undefined;
    throw error;
  }
}

function titleOf(stage: ObjectNode): string {
  const text = compact(stage);
  return text.length > TITLE_LENGTH ? `${text.slice(0, TITLE_LENGTH)}…` : text;
}

function After({ db, stages, count }: { db: string; stages: readonly ObjectNode[]; count: number }) {
  const key = stages.slice(0, count).map(compact).join();
  const loaded = useLoad((signal) => afterStage(db, stages, count, MOST, signal), [db, key]);
  return (
    <Shown of={loaded}>
      {(docs) =>
        docs.length === 0 ? (
          <p class="soft">No document is left.</p>
        ) : (
          <div class="stage-documents">
            {docs.map((doc, index) => (
              <pre key={index} class="panel">
                {pretty(doc).slice(0, 2000)}
              </pre>
            ))}
          </div>
        )
      }
    </Shown>
  );
}
