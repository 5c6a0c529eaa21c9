// Replications: start, watch, stop.

import { useMemo, useRef, useState } from 'preact/hooks';
import { Failure } from '../../api/http.ts';
import { useInterval, useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { link } from '../../state/router.ts';
import { bytes, count, Empty, Shown } from '../../ui/basics.tsx';
import { Chart } from '../../ui/chart.tsx';
import { confirm } from '../../ui/dialog.tsx';
import { advice, isRemote, loadReplications, stopReplication, type Replication } from './jobs.ts';
import { NewReplicationDialog } from './new-replication.tsx';

const REFRESH_MS = 2000;

/** The samples of a replication that the page keeps: ten minutes. */
const MOST_SAMPLES = 300;

interface Samples {
  readonly times: number[];
  readonly written: number[];
  readonly pending: (number | null)[];
}

const GOOD = ['running', 'completed'];
const BAD = ['failed', 'crashing', 'error'];

export function ReplicationPage() {
  const samples = useRef(new Map<string, Samples>());
  const [starting, setStarting] = useState(false);
  const loaded = useLoad(async (signal) => {
    const found = await loadReplications(signal);
    for (const replication of found) addSample(samples.current, replication);
    return found;
  }, []);
  const isRefused = loaded.error instanceof Failure && [401, 403].includes(loaded.error.status);
  useInterval(() => {
    if (!isRefused) loaded.reload();
  }, REFRESH_MS);
  const stop = async (replication: Replication) => {
    const text = 'Documents that are at the target stay there. A new replication between the same ends goes on where this one was.';
    if (!(await confirm({ title: 'Stop this replication?', text, action: 'Stop', dangerous: true }))) return;
    try {
      await stopReplication(replication.id);
      samples.current.delete(replication.id);
      done('Stopped.');
      loaded.reload();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <div class="page">
      <div class="toolbar">
        <span class="soft">
          Each is a document of{' '}
          <a href={link(['db', '_replicator', 'documents'])}>
            <code>_replicator</code>
          </a>
          .
        </span>
        <span class="space" />
        {!isRefused && (
          <button type="button" class="primary" onClick={() => setStarting(true)}>
            New replication
          </button>
        )}
      </div>
      {isRefused ? (
        <Empty title="Replications are shown to administrators of the server" />
      ) : (
        <Shown of={loaded}>
          {(replications) =>
            replications.length === 0 ? (
              <Empty title="No replications">
                <p class="soft">Copy a database to or from another Diwan, CouchDB or PouchDB Server, once or continuously.</p>
              </Empty>
            ) : (
              <>
                {replications.map((replication) => (
                  <ReplicationPanel key={replication.id} replication={replication} samples={samples.current.get(replication.id)} onStop={() => stop(replication)} />
                ))}
              </>
            )
          }
        </Shown>
      )}
      {starting && (
        <NewReplicationDialog
          onClose={(started) => {
            setStarting(false);
            if (started) loaded.reload();
          }}
        />
      )}
    </div>
  );
}

function addSample(all: Map<string, Samples>, { id, written, pending }: Replication): void {
  const old = all.get(id) ?? { times: [], written: [], pending: [] };
  const add = <T,>(values: readonly T[], value: T) => [...values.slice(1 - MOST_SAMPLES), value];
  all.set(id, { times: add(old.times, Date.now()), written: add(old.written, written), pending: add(old.pending, pending ?? null) });
}

function ReplicationPanel({ replication, samples, onStop }: { replication: Replication; samples: Samples | undefined; onStop: () => void }) {
  const { id, source, target, state, error, errorCount, continuous } = replication;
  const kind = GOOD.includes(state) ? 'badge good' : BAD.includes(state) ? 'badge danger' : 'badge';
  const known = error && advice(error);
  return (
    <section class="panel replication" aria-label={`Replication ${id}`}>
      <div class="toolbar">
        <h2>
          <End address={source} /> → <End address={target} />
        </h2>
        <span class={kind}>{state}</span>
        <span class="badge">{continuous ? 'continuous' : 'once'}</span>
        <span class="space" />
        <button type="button" onClick={onStop} aria-label={`${state === 'completed' ? 'Remove' : 'Stop'} ${id}`}>
          {state === 'completed' ? 'Remove' : 'Stop'}
        </button>
      </div>
      {error && BAD.concat('pending', 'running').includes(state) && (
        <div class={BAD.includes(state) ? 'error-box' : 'warning-box'} role="alert">
          <span>
            {errorCount > 1 && `${count(errorCount)} times in a row: `}
            {error}
          </span>
          {known && <strong>{known}</strong>}
        </div>
      )}
      <dl class="figures">
        <Figure name="Documents read" value={count(replication.read)} />
        <Figure name="Documents written" value={count(replication.written)} />
        {replication.bytes !== undefined && <Figure name="Written" value={bytes(replication.bytes)} />}
        <Figure name="Changes left" value={count(replication.pending)} />
        {replication.failures > 0 && <Figure name="Refused by the target" value={count(replication.failures)} />}
        <Figure name="Started" value={replication.started ? new Date(replication.started).toLocaleString() : '–'} />
      </dl>
      {samples && samples.times.length > 2 && state === 'running' && <Progress samples={samples} />}
    </section>
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

function End({ address }: { address: string }) {
  return isRemote(address) ? <span>{address}</span> : <a href={link(['db', address, 'documents'])}>{address}</a>;
}

function Progress({ samples }: { samples: Samples }) {
  const { times, written, pending } = samples;
  const series = useMemo(
    () => [
      { name: 'written', values: written },
      { name: 'left', values: pending },
    ],
    [samples],
  );
  return <Chart label="Documents since this page was opened" times={times} series={series} format={(value) => count(Math.round(value))} height={110} />;
}
