// What the server does now.

import { useState } from 'preact/hooks';
import { command, plainCommand } from '../../api/command.ts';
import { field, toPlain, type Node } from '../../json/node.ts';
import { pretty } from '../../json/print.ts';
import { useInterval, useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { may } from '../../state/session.ts';
import { duration, Empty, Shown } from '../../ui/basics.tsx';
import { confirm } from '../../ui/dialog.tsx';

const REFRESH_MS = 2000;
const TEXT_LENGTH = 4000;

interface Operation {
  readonly opid: number;
  readonly op: string;
  readonly ns: string;
  readonly client: string | undefined;
  readonly user: string | undefined;
  readonly desc: string | undefined;
  readonly millis: number;
  readonly plan: string | undefined;
  readonly command: Node | undefined;
}

async function loadOperations(everybody: boolean, signal: AbortSignal): Promise<Operation[]> {
  const answer = await command('admin', [['currentOp', 1], ['$ownOps', !everybody]], signal);
  const all = field(answer, 'inprog');
  const items = all?.kind === 'array' ? all.items : [];
  return items
    .map((node): Operation => {
      const plain = toPlain(node) as { opid?: number; op?: string; ns?: string; client?: string; desc?: string; microsecs_running?: number; planSummary?: string; effectiveUsers?: { user: string }[] };
      return {
        opid: plain.opid ?? 0,
        op: plain.op ?? '',
        ns: plain.ns ?? '',
        client: plain.client,
        user: plain.effectiveUsers?.[0]?.user,
        desc: plain.desc,
        millis: (plain.microsecs_running ?? 0) / 1000,
        plan: plain.planSummary,
        command: field(node, 'command'),
      };
    })
    .filter(({ command }) => field(command, 'currentOp') === undefined)
    .sort((a, b) => b.millis - a.millis);
}

export function OperationsPage() {
  const [paused, setPaused] = useState(false);
  const everybody = may('inprog');
  const loaded = useLoad((signal) => loadOperations(everybody, signal), [everybody]);
  useInterval(() => {
    if (!paused) loaded.reload();
  }, REFRESH_MS);
  const kill = async ({ opid, ns }: Operation) => {
    if (!(await confirm({ title: `End operation ${opid}?`, text: `It works on ${ns}. Its client gets an error; what it has written stays.`, action: 'End it', dangerous: true }))) return;
    try {
      await plainCommand('admin', [['killOp', 1], ['op', opid]]);
      done(`Operation ${opid} ends.`);
      loaded.reload();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <div class="page">
      <div class="toolbar">
        <span class="soft">{everybody ? 'All operations that run now, the longest first.' : 'Your operations that run now.'}</span>
        <span class="space" />
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? 'Go on' : 'Pause'}
        </button>
      </div>
      <Shown of={loaded}>
        {(operations) =>
          operations.length === 0 ? (
            <Empty title="Nothing runs now" />
          ) : (
            <div class="wide-table panel" role="region" aria-label="Operations" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">Number</th>
                    <th scope="col" class="number">
                      Running for
                    </th>
                    <th scope="col">Operation</th>
                    <th scope="col">On</th>
                    <th scope="col">User and client</th>
                    <th scope="col">
                      <span class="visually-hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {operations.map((operation) => (
                    <tr key={operation.opid}>
                      <th scope="row">{operation.opid}</th>
                      <td class="number">{duration(operation.millis)}</td>
                      <td>
                        {operation.op} {operation.plan && <span class={operation.plan === 'COLLSCAN' ? 'badge warning' : 'badge'}>{operation.plan}</span>}
                        {operation.command && (
                          <details>
                            <summary>Command</summary>
                            <pre>{pretty(operation.command).slice(0, TEXT_LENGTH)}</pre>
                          </details>
                        )}
                      </td>
                      <td class="mono">{operation.ns}</td>
                      <td>
                        {operation.user ?? ''} <span class="soft">{operation.client ?? operation.desc}</span>
                      </td>
                      <td>
                        <button type="button" onClick={() => kill(operation)} aria-label={`End operation ${operation.opid}`}>
                          End
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
    </div>
  );
}
