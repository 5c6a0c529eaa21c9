// Whether the views of a design document are built, and how far.

import { call, documentPath, Failure } from '../../api/http.ts';
import { useInterval, useLoad } from '../../state/load.ts';
import { failed } from '../../state/notices.ts';
import { isAdministrator } from '../../state/session.ts';
import { bytes, count, Progress } from '../../ui/basics.tsx';

interface ViewIndex {
  readonly sizes: { readonly file: number };
  readonly updater_running: boolean;
  readonly updates_pending: { readonly total: number };
}

interface Task {
  readonly type: string;
  readonly database: string;
  readonly design_document?: string;
  readonly changes_done?: number;
  readonly total_changes?: number;
}

const REFRESH_MS = 2000;

export function IndexState({ db, name, views }: { db: string; name: string; views: readonly string[] }) {
  const first = views[0];
  const loaded = useLoad(async (signal) => {
    if (first === undefined) return undefined;
    const [{ view_index }, tasks] = await Promise.all([
      call<{ view_index: ViewIndex }>('GET', documentPath(db, `_design/${name}`, '_info'), { signal }).catch((error) => {
        // The information is for administrators of the database.
        if (error instanceof Failure && error.status === 403) return { view_index: undefined };
        throw error;
      }),
      isAdministrator.value ? call<Task[]>('GET', '/_active_tasks', { signal }) : [],
    ]);
    return { index: view_index, task: tasks.find((task) => task.type === 'indexer' && task.database === db && task.design_document === `_design/${name}`) };
  }, [db, name, first]);
  useInterval(loaded.reload, REFRESH_MS);
  if (!loaded.value?.index || first === undefined) return null;
  const { index, task } = loaded.value;
  const pending = index.updates_pending.total;
  const build = () => {
    // The answer comes when the view is built, so nobody waits for it.
    call('GET', documentPath(db, `_design/${name}`, '_view', first), { query: { limit: 0 } }).catch(failed);
    loaded.reload();
  };
  return (
    <div class="toolbar index-state" role="status">
      {task ? (
        <Progress label="The views are being built" done={task.changes_done} total={task.total_changes} />
      ) : (
        <>
          <span class={pending === 0 ? 'badge good' : 'badge warning'}>{pending === 0 ? 'up to date' : `${count(pending)} changes behind`}</span>
          <span class="soft">The views take {bytes(index.sizes.file)}. They are brought up to date when they are read.</span>
          {pending > 0 && (
            <button type="button" disabled={index.updater_running} onClick={build}>
              Build now
            </button>
          )}
        </>
      )}
    </div>
  );
}
