// Queries: the editor, the results, the plan.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { loadStatus, httpUri, mongoUri } from '../../api/status.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { place, setQuery } from '../../state/router.ts';
import { may, session } from '../../state/session.ts';
import { databases } from '../../state/databases.ts';
import { ErrorBox, Menu, Segments } from '../../ui/basics.tsx';
import { copyText } from '../../ui/copy.tsx';
import type { DatabasePageProps } from '../registry.ts';
import { codeFor, targetsOf, type Target } from './copy-as.ts';
import { QueryEditor } from './query-editor.tsx';
import { explain } from './explain.ts';
import { HistoryDialog, SaveDialog, SavedDialog } from './saved-dialogs.tsx';
import { PlanView } from './plan-view.tsx';
import type { Plan } from './plan.ts';
import { emptyQuery, KINDS, parseQuery, QueryProblem, type Kind, type Parsed, type QueryText } from './request.ts';
import { ResultsView } from './results-view.tsx';
import { sampledFields } from './sample.ts';
import { addToHistory } from './saved.ts';
import { StagesView } from './stages-view.tsx';
import { useResults } from './use-results.ts';

const PARTS = ['text', 'projection', 'sort', 'skip', 'limit', 'reduce'] as const;

/** The query of the address. Links from other pages have a `filter` only. */
function fromAddress(query: URLSearchParams): QueryText {
  const kind = (KINDS.find(([kind]) => kind === query.get('kind'))?.[0] ?? 'filter') satisfies Kind;
  const text: Record<string, string> = { ...emptyQuery(kind) };
  for (const part of PARTS) text[part] = query.get(part) ?? text[part]!;
  const filter = query.get('filter');
  return { ...(text as unknown as QueryText), ...(filter !== null && kind === 'filter' ? { text: filter } : {}) };
}

type Shown = 'results' | 'plan' | 'stages';

export function QueryPage({ db }: DatabasePageProps) {
  const address = place.value.query;
  const [query, setText] = useState(() => fromAddress(address));
  const [problem, setProblem] = useState<QueryProblem>();
  const [shown, setShown] = useState<Shown>('results');
  const [asked, setAsked] = useState<Parsed>();
  const [plan, setPlan] = useState<{ plan?: Plan; error?: unknown; loading: boolean }>({ loading: false });
  const [dialog, setDialog] = useState<'history' | 'saved' | 'save'>();
  const texts = useRef(new Map<Kind, QueryText>());
  const running = useResults(db);
  const planning = useRef<AbortController>(undefined);
  const fields = useLoad((signal) => sampledFields(db, signal), [db]);
  const isView = databases.value?.find((database) => database.name === db)?.isView ?? false;
  // HTTP does not show MongoDB's views, so only commands read them.
  const kinds = useMemo(() => KINDS.filter(([kind]) => kind === 'filter' || kind === 'pipeline' || (!isView && (kind === 'selector' || may('collMod', db)))), [isView, db, session.value]);
  useEffect(() => () => planning.current?.abort(), []);

  const change = (next: QueryText) => {
    setText(next);
    texts.current.set(next.kind, next);
    setProblem(undefined);
  };
  const parsed = (): Parsed | undefined => {
    try {
      const made = parseQuery(query);
      setProblem(undefined);
      return made;
    } catch (error) {
      if (!(error instanceof QueryProblem)) throw error;
      setProblem(error);
      return undefined;
    }
  };
  const remember = () => {
    const same = emptyQuery(query.kind);
    const parts = Object.fromEntries(PARTS.map((part) => [part, query[part] === same[part] ? undefined : query[part]]));
    setQuery({ ...parts, kind: query.kind === 'filter' ? undefined : query.kind, filter: undefined });
    addToHistory(db, query);
  };
  const run = () => {
    const request = parsed();
    if (!request) return;
    remember();
    setAsked(request);
    setShown('results');
    running.start(request);
  };
  const showPlan = async () => {
    const request = parsed();
    if (!request) return;
    remember();
    setAsked(request);
    setShown('plan');
    planning.current?.abort();
    const own = new AbortController();
    planning.current = own;
    setPlan({ loading: true });
    try {
      const plan = await explain(db, request, own.signal);
      if (!own.signal.aborted) setPlan({ plan, loading: false });
    } catch (error) {
      if (!own.signal.aborted) setPlan({ error, loading: false });
    }
  };
  const copy = async (target: Target) => {
    const request = parsed();
    if (!request) return;
    const user = session.value?.user;
    const code = codeFor(target, db, request, { mongodb: mongoUri(await loadStatus(), user), http: httpUri(user) });
    await copyText(code);
    done(`Copied as ${target}.`);
  };
  const choose = (next: QueryText) => {
    change(next);
    setDialog(undefined);
  };
  const tabs: (readonly [Shown, string])[] = [['results', 'Results'], ...(query.kind === 'view' ? [] : [['plan', 'Plan'] as const]), ...(query.kind === 'pipeline' ? [['stages', 'Stages'] as const] : [])];

  return (
    <div class="page query">
      <div class="toolbar">
        <Segments label="Kind of query" options={kinds} value={query.kind} onChange={(kind) => change(texts.current.get(kind) ?? emptyQuery(kind))} />
        <span class="space" />
        <button type="button" onClick={() => setDialog('history')}>
          History
        </button>
        <button type="button" onClick={() => setDialog('saved')}>
          Saved queries
        </button>
        <Menu label="Copy as ▾" title="Copy as">
          {targetsOf({ kind: query.kind } as Parsed).map((target) => (
            <button key={target} type="button" onClick={() => copy(target).catch(failed)}>
              {target}
            </button>
          ))}
        </Menu>
      </div>
      <QueryEditor key={query.kind} query={query} problem={problem} fields={fields.value ?? []} onChange={change} onRun={run} />
      <div class="toolbar">
        {running.state === 'running' ? (
          <button type="button" class="danger" onClick={running.cancel}>
            Cancel
          </button>
        ) : (
          <button type="button" class="primary" onClick={run}>
            Run
          </button>
        )}
        {query.kind !== 'view' && (
          <button type="button" onClick={showPlan}>
            Explain
          </button>
        )}
        <span class="soft">Ctrl+Enter runs the query.</span>
        <span class="space" />
        {tabs.length > 1 && <Segments label="What is shown" options={tabs} value={shown} onChange={(next) => (next === 'plan' && !plan.plan ? showPlan() : setShown(next))} />}
      </div>
      {shown === 'results' && <ResultsView db={db} asked={asked} run={running} />}
      {shown === 'plan' && plan.loading && <p class="loading">The server runs the query once to count…</p>}
      {shown === 'plan' && plan.error !== undefined && <ErrorBox error={plan.error} />}
      {shown === 'plan' && plan.plan && asked && <PlanView db={db} query={asked} plan={plan.plan} onIndex={showPlan} />}
      {shown === 'stages' && query.kind === 'pipeline' && <StagesView db={db} text={query.text} />}
      {dialog === 'history' && <HistoryDialog db={db} onChoose={choose} onClose={() => setDialog(undefined)} />}
      {dialog === 'saved' && <SavedDialog db={db} onChoose={choose} onSave={() => setDialog('save')} onClose={() => setDialog(undefined)} />}
      {dialog === 'save' && <SaveDialog db={db} query={query} onClose={() => setDialog(undefined)} />}
    </div>
  );
}
