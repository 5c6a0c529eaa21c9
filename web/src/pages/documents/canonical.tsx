// The document as MongoDB's clients have it, in canonical Extended JSON: every value shows its type.

import { command, on } from '../../api/command.ts';
import { idNode } from '../../json/ids.ts';
import { at, object } from '../../json/node.ts';
import { pretty } from '../../json/print.ts';
import { useLoad } from '../../state/load.ts';
import { Shown } from '../../ui/basics.tsx';

/** The characters that are shown. */
const SHOWN = 300_000;

export function CanonicalView({ db, id, rev }: { db: string; id: string; rev: string }) {
  const loaded = useLoad(
    async (signal) => {
      const filter = object([['_id', idNode(id)]]);
      const doc = at(await command(...on(db, 'find', [['filter', filter], ['limit', 1]]), signal, true), 'cursor.firstBatch.0');
      if (!doc) throw new Error('The document no longer exists.');
      return pretty(doc);
    },
    [db, id, rev],
  );
  return (
    <Shown of={loaded}>
      {(text) => (
        <pre class="partial" role="region" aria-label="Canonical Extended JSON" tabIndex={0}>
          {text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text}
        </pre>
      )}
    </Shown>
  );
}
