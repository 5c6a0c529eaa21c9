// How the server is: figures now, and over the last hour.

import { useMemo } from 'preact/hooks';
import { call } from '../../api/http.ts';
import { loadStatus } from '../../api/status.ts';
import { useInterval, useLoad } from '../../state/load.ts';
import { may } from '../../state/session.ts';
import { bytes, count, duration, Shown } from '../../ui/basics.tsx';
import { Chart } from '../../ui/chart.tsx';

interface History {
  readonly interval_ms: number;
  readonly at: readonly number[];
  readonly series: Readonly<Record<string, readonly number[]>>;
}

const REFRESH_MS = 15_000;

const rate = (value: number) => (value > 0 && value < 10 ? value.toFixed(1) : String(Math.round(value)));

interface ChartEntry {
  readonly label: string;
  readonly series: readonly (readonly [key: string, name: string])[];
  readonly format: (value: number) => string;
}

const CHARTS: readonly ChartEntry[] = [
  { label: 'Documents a second', series: [['reads', 'read'], ['writes', 'written']], format: rate },
  { label: 'Requests a second', series: [['commands', 'MongoDB'], ['http_requests', 'HTTP']], format: rate },
  { label: 'Mean time of a command', series: [['latency_ms', 'time']], format: duration },
  { label: 'Connections', series: [['connections', 'open']], format: (value) => String(Math.round(value)) },
  { label: 'Memory', series: [['memory_bytes', 'process'], ['cache_bytes', 'cache']], format: bytes },
  { label: 'Journal', series: [['journal_bytes', 'size']], format: bytes },
];

export function OverviewPage() {
  const status = useLoad(loadStatus, []);
  const isWatcher = may('serverStatus');
  const history = useLoad(async (signal) => (isWatcher ? call<History>('GET', '/_diwan/history', { signal }) : undefined), [isWatcher]);
  useInterval(() => {
    status.reload();
    history.reload();
  }, REFRESH_MS);
  return (
    <div class="page">
      <Shown of={status}>
        {({ version, uptime_ms, mongodb, http, figures }) => (
          <div class="panel">
            <dl class="figures">
              <Figure name="Version" value={version} />
              <Figure name="Running for" value={duration(uptime_ms)} />
              {figures && (
                <>
                  <Figure name="Connections" value={count(figures.connections)} />
                  <Figure name="Memory" value={bytes(figures.memory_bytes)} />
                  <Figure name="Cache" value={figures.cache_limit_bytes > 0 ? `${bytes(figures.cache_bytes)} of ${bytes(figures.cache_limit_bytes)}` : 'none'} />
                  <Figure name="Journal" value={bytes(figures.journal_bytes)} />
                  <Figure name="On disk" value={figures.disk_bytes > 0 ? bytes(figures.disk_bytes) : 'nothing'} />
                </>
              )}
            </dl>
            <p class="soft server-addresses">
              MongoDB on {mongodb.address}, port {mongodb.port}
              {mongodb.tls ? ' with TLS' : ''}; HTTP on {http.address}, port {http.port}
              {http.tls ? ' with TLS' : ''}.
            </p>
          </div>
        )}
      </Shown>
      {isWatcher ? <Shown of={history}>{(value) => value && <Charts history={value} />}</Shown> : <p class="soft">The figures of the last hour need the right “serverStatus”.</p>}
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

function Charts({ history }: { history: History }) {
  const charts = useMemo(() => CHARTS.map((entry) => ({ ...entry, lines: entry.series.map(([key, name]) => ({ name, values: history.series[key] ?? [] })) })), [history]);
  if (history.at.length < 2) return <p class="soft">The first figures appear after half a minute.</p>;
  return (
    <>
      <h2>The last hour</h2>
      <div class="cards charts">
        {charts.map(({ label, lines, format }) => (
          <div key={label} class="panel">
            <Chart label={label} times={history.at} series={lines} format={format} />
          </div>
        ))}
      </div>
    </>
  );
}
