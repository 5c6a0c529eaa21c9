// The editor of a query and its options.

import { useMemo, useRef } from 'preact/hooks';
import { Editor, type Problem } from '../../ui/editor.tsx';
import { Field } from '../../ui/basics.tsx';
import type { FieldSummary } from './analysis.ts';
import { completionsFor } from './completion.ts';
import { KINDS, parseQuery, QueryProblem, type QueryText } from './request.ts';

interface Props {
  query: QueryText;
  problem: QueryProblem | undefined;
  fields: readonly FieldSummary[];
  onChange: (query: QueryText) => void;
  onRun: () => void;
}

export function QueryEditor({ query, problem, fields, onChange, onRun }: Props) {
  const { kind } = query;
  const latest = useRef(fields);
  latest.current = fields;
  const complete = useMemo(() => completionsFor(kind, () => latest.current), [kind]);
  const check = (text: string): Problem[] => {
    try {
      parseQuery({ ...query, text });
    } catch (error) {
      if (error instanceof QueryProblem && error.part === kind && error.offset !== undefined) return [{ from: error.offset, to: error.offset + 1, message: error.message }];
    }
    return [];
  };
  const label = KINDS.find(([each]) => each === kind)![1];
  const option = (name: 'projection' | 'sort' | 'skip' | 'limit', title: string, placeholder: string) => (
    <Field label={title}>
      {(id) => (
        <input
          id={id}
          class="mono"
          spellcheck={false}
          placeholder={placeholder}
          inputMode={name === 'skip' || name === 'limit' ? 'numeric' : undefined}
          aria-invalid={problem?.part === name}
          value={query[name]}
          onInput={(event) => onChange({ ...query, [name]: event.currentTarget.value })}
          onKeyDown={(event) => event.key === 'Enter' && onRun()}
        />
      )}
    </Field>
  );
  return (
    <div class="query-editor">
      <div class={kind === 'view' ? 'split' : undefined}>
        <Editor
          value={query.text}
          onChange={(text) => onChange({ ...query, text })}
          onRun={onRun}
          language={kind === 'view' ? 'javascript' : kind === 'selector' ? 'json' : 'shell'}
          label={kind === 'view' ? 'Map function' : label}
          check={kind === 'view' ? undefined : check}
          complete={kind === 'view' ? undefined : complete}
          lines={kind === 'filter' ? 3 : 8}
        />
        {kind === 'view' && (
          <Editor value={query.reduce} onChange={(reduce) => onChange({ ...query, reduce })} onRun={onRun} language="javascript" label="Reduce function, such as _sum; may be empty" lines={8} />
        )}
      </div>
      {kind === 'filter' && (
        <div class="query-options">
          {option('projection', 'Fields', '{ name: 1 }')}
          {option('sort', 'Sort', '{ name: 1 }')}
          {option('skip', 'Skip', '0')}
          {option('limit', 'Limit', 'all')}
        </div>
      )}
      {kind === 'view' && <div class="query-options">{option('limit', 'Limit', '1000')}</div>}
      {kind === 'view' && <p class="soft">The second editor holds a reduce function, or the name of one that is built in: _sum, _count, _stats, _approx_count_distinct. It may be empty.</p>}
      {problem && (
        <p class="error-box" role="alert">
          {problem.part === kind ? problem.message : `${problem.part}: ${problem.message}`}
        </p>
      )}
    </div>
  );
}
