// The fields of a sample: types, how often they are there, distributions.

import { useState } from 'preact/hooks';
import { useLoad } from '../../state/load.ts';
import { link } from '../../state/router.ts';
import { count, Empty, Field, Shown } from '../../ui/basics.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { analyse, frequentValues, histogram, type FieldSummary } from './analysis.ts';
import { sampleDocuments } from './sample.ts';

const SIZES = [100, 1000, 5000];

const BARS = 24;
const FREQUENT = 5;

export function SchemaPage({ db }: DatabasePageProps) {
  const [size, setSize] = useState(1000);
  const [find, setFind] = useState('');
  const loaded = useLoad(async (signal) => {
    const docs = await sampleDocuments(db, size, signal);
    return { sampled: docs.length, fields: analyse(docs) };
  }, [db, size]);
  return (
    <div class="page schema">
      <div class="toolbar">
        <label class="check">
          Documents in the sample
          <select value={size} onChange={(event) => setSize(Number(event.currentTarget.value))}>
            {SIZES.map((each) => (
              <option key={each} value={each}>
                {count(each)}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={loaded.reload}>
          Another sample
        </button>
        <span class="space" />
        <Field label="Find a field">{(id) => <input id={id} type="search" value={find} onInput={(event) => setFind(event.currentTarget.value)} />}</Field>
      </div>
      <Shown of={loaded}>
        {({ sampled, fields }) => {
          if (sampled === 0) return <Empty title="No documents yet" />;
          const shown = fields.filter(({ path }) => path.toLowerCase().includes(find.toLowerCase()));
          return (
            <>
              <p class="soft" role="status">
                {count(fields.length)} {fields.length === 1 ? 'field' : 'fields'} in {count(sampled)} documents
              </p>
              <div class="panel schema-fields">
                {shown.map((field) => (
                  <FieldView key={field.path} db={db} field={field} sampled={sampled} />
                ))}
              </div>
            </>
          );
        }}
      </Shown>
    </div>
  );
}

function percent(part: number, whole: number): string {
  const value = (100 * part) / whole;
  return value > 0 && value < 1 ? '< 1 %' : `${Math.round(value)} %`;
}

function FieldView({ db, field, sampled }: { db: string; field: FieldSummary; sampled: number }) {
  const types = [...field.types].sort((a, b) => b[1] - a[1]);
  const all = types.reduce((sum, [, each]) => sum + each, 0);
  return (
    <section class="schema-field" aria-label={field.path}>
      <div>
        <h3>{field.path}</h3>
        <span class="soft">in {percent(field.count, sampled)} of the documents</span>
      </div>
      <div>
        <div class="type-bars" aria-hidden="true">
          {types.map(([type, each]) => (
            <span key={type} style={{ width: `${(100 * each) / all}%` }} />
          ))}
        </div>
        {types.map(([type, each]) => (
          <div key={type}>
            {type} <span class="soft">{percent(each, all)}</span>
          </div>
        ))}
      </div>
      <Distribution db={db} field={field} />
    </section>
  );
}

function Distribution({ db, field }: { db: string; field: FieldSummary }) {
  const bars = histogram(field, BARS);
  const frequent = frequentValues(field, FREQUENT);
  const text = (value: number) => (field.isDate ? new Date(value).toISOString().slice(0, 10) : String(Number(value.toPrecision(4))));
  if (bars.length > 0 && field.values.size > FREQUENT) {
    const most = Math.max(...bars.map((bar) => bar.count));
    const label = `From ${text(bars[0]!.from)} to ${text(bars.at(-1)!.to)}`;
    return (
      <div role="img" aria-label={label}>
        <div class="bars">
          {bars.map((bar) => (
            <span key={bar.from} title={`${text(bar.from)} to ${text(bar.to)}: ${count(bar.count)}`} style={{ height: `${(100 * bar.count) / most}%` }} />
          ))}
        </div>
        <div class="bars-ends">
          <span>{text(bars[0]!.from)}</span>
          <span>{text(bars.at(-1)!.to)}</span>
        </div>
      </div>
    );
  }
  if (frequent.length === 0) {
    const example = field.values.keys().next().value;
    return <div class="soft">{example === undefined ? '' : `${count(field.values.size)} different values, such as ${example.slice(0, 60)}`}</div>;
  }
  const isText = field.types.has('string') && !field.path.includes('.');
  return (
    <dl class="frequent">
      {frequent.map(([value, each]) => (
        <>
          <dt title={value}>{isText ? <a href={link(['db', db, 'query'], { filter: JSON.stringify({ [field.path]: value }) })}>{value === '' ? '(empty)' : value}</a> : value}</dt>
          <dd>
            <div class="type-bars" aria-hidden="true">
              <span style={{ width: `${(100 * each) / field.count}%` }} />
            </div>
          </dd>
          <dd class="soft">{count(each)}</dd>
        </>
      ))}
    </dl>
  );
}
