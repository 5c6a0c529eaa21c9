// Slow operations, grouped by the shape of their queries.

import { useState } from 'preact/hooks';
import { plainCommand } from '../../api/command.ts';
import { call, send } from '../../api/http.ts';
import { array, field, object, type Node } from '../../json/node.ts';
import { parseJson } from '../../json/parse.ts';
import { compact, pretty } from '../../json/print.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { link } from '../../state/router.ts';
import { isAdministrator } from '../../state/session.ts';
import { count, duration, Empty, Field, Form, Shown } from '../../ui/basics.tsx';

interface Shape {
  readonly namespace: string;
  readonly db: string | undefined;
  readonly operation: string;
  readonly shape: Node | undefined;
  readonly example: Node | undefined;
  readonly plan: string;
  readonly count: number;
  readonly totalMillis: number;
  readonly mostMillis: number;
  readonly keys: number;
  readonly docs: number;
  readonly returned: number;
  readonly last: number;
}

async function loadSlow(signal: AbortSignal): Promise<{ threshold: number; shapes: Shape[] }> {
  const response = await send('GET', '/_diwan/slow', { signal });
  const answer = parseJson(await response.text());
  const shapes = field(answer, 'shapes');
  return { threshold: numberOf(answer, 'threshold_ms'), shapes: shapes?.kind === 'array' ? shapes.items.map(shapeOf) : [] };
}

function numberOf(node: Node | undefined, name: string): number {
  const value = field(node, name);
  return value?.kind === 'number' ? Number(value.text) : 0;
}

function shapeOf(node: Node): Shape {
  const text = (name: string) => {
    const value = field(node, name);
    return value?.kind === 'string' ? value.value : undefined;
  };
  return {
    namespace: text('namespace') ?? '',
    db: text('db'),
    operation: text('operation') ?? '',
    plan: text('plan') ?? '',
    shape: field(node, 'shape'),
    example: field(node, 'example'),
    count: numberOf(node, 'count'),
    totalMillis: numberOf(node, 'total_ms'),
    mostMillis: numberOf(node, 'max_ms'),
    keys: numberOf(node, 'keys_examined'),
    docs: numberOf(node, 'docs_examined'),
    returned: numberOf(node, 'returned'),
    last: numberOf(node, 'last'),
  };
}

/** The page that shows the plan of an example. */
function queryLink({ db, operation, example }: Shape): string | undefined {
  if (!db || !example) return undefined;
  const part = (name: string) => {
    const value = field(example, name);
    return value ? compact(value) : undefined;
  };
  if (operation === 'aggregate') return link(['db', db, 'query'], { kind: 'pipeline', text: pretty(field(example, 'pipeline') ?? array([])) });
  const filter = part('filter') ?? part('query') ?? part('q');
  return filter === undefined ? undefined : link(['db', db, 'query'], { filter, sort: part('sort'), projection: part('projection') });
}

/** Documents that are examined for each one that is returned, from which a plan is marked. */
const MUCH = 10;

export function SlowPage() {
  const loaded = useLoad(loadSlow, []);
  const clear = async () => {
    try {
      await call('DELETE', '/_diwan/slow');
      loaded.reload();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <div class="page">
      <Shown of={loaded}>
        {({ threshold, shapes }) => (
          <>
            <div class="toolbar">
              <span class="soft">Operations of {duration(threshold)} and more since the server started, those that took the most time first.</span>
              <span class="space" />
              <button type="button" onClick={loaded.reload}>
                Load again
              </button>
              {isAdministrator.value && shapes.length > 0 && (
                <button type="button" onClick={clear}>
                  Forget all
                </button>
              )}
            </div>
            {isAdministrator.value && <Threshold key={threshold} value={threshold} onChanged={loaded.reload} />}
            {shapes.length === 0 && (
              <Empty title="No slow operations">
                <p class="soft">All operations were faster than {duration(threshold)}.</p>
              </Empty>
            )}
            {shapes.map((shape, index) => (
              <ShapePanel key={index} shape={shape} />
            ))}
          </>
        )}
      </Shown>
    </div>
  );
}

function ShapePanel({ shape }: { shape: Shape }) {
  const href = queryLink(shape);
  const isWasteful = shape.docs > MUCH * Math.max(1, shape.returned);
  const figures: readonly (readonly [string, string])[] = [
    ['Operations', count(shape.count)],
    ['Time in all', duration(shape.totalMillis)],
    ['Mean', duration(shape.totalMillis / Math.max(1, shape.count))],
    ['Longest', duration(shape.mostMillis)],
    ['Keys examined', count(shape.keys)],
    ['Documents examined', count(shape.docs)],
    ['Returned', count(shape.returned)],
    ['Last', new Date(shape.last).toLocaleTimeString()],
  ];
  return (
    <section class="panel slow-shape" aria-label={`${shape.operation} on ${shape.namespace}`}>
      <div class="toolbar">
        <h2>
          {shape.operation} on {shape.namespace}
        </h2>
        <span class={isWasteful ? 'badge warning' : 'badge'}>{shape.plan}</span>
        <span class="space" />
        {href && (
          <a class="button" href={href}>
            Open the last one
          </a>
        )}
      </div>
      <pre>{shape.shape && pretty(shape.shape)}</pre>
      <dl class="figures">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {isWasteful && <p class="soft">It examines {count(Math.round(shape.docs / Math.max(1, shape.returned)))} documents for each one that it returns. Open it and explain it: the page proposes an index.</p>}
      <details>
        <summary>The last one</summary>
        <pre>{pretty(shape.example ?? object([]))}</pre>
      </details>
    </section>
  );
}

function Threshold({ value, onChanged }: { value: number; onChanged: () => void }) {
  const [text, setText] = useState(String(value));
  const save = async () => {
    try {
      await plainCommand('admin', [['profile', 0], ['slowms', Number(text)]]);
      done('Saved.');
      onChanged();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <Form onSubmit={save} label="What is slow">
      <div class="toolbar threshold">
        <Field label="Slow from, in milliseconds">{(id) => <input id={id} inputMode="numeric" value={text} onInput={(event) => setText(event.currentTarget.value)} />}</Field>
        <button disabled={text.trim() === '' || Number.isNaN(Number(text)) || Number(text) === value}>Save</button>
      </div>
    </Form>
  );
}
