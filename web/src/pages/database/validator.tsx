// The filter that every written document must match.

import { useState } from 'preact/hooks';
import { all, command, on } from '../../api/command.ts';
import { namespace } from '../../api/names.ts';
import { at, object, type Node } from '../../json/node.ts';
import { ParseError, parseShell } from '../../json/parse.ts';
import { pretty } from '../../json/print.ts';
import { useLoad } from '../../state/load.ts';
import { done, failed } from '../../state/notices.ts';
import { Shown } from '../../ui/basics.tsx';
import { Editor, type Problem } from '../../ui/editor.tsx';

async function loadOptions(db: string, signal: AbortSignal): Promise<Node> {
  const { database, collection } = namespace(db);
  const [found] = await all(database, [['listCollections', 1], ['filter', { name: collection }], ['cursor', {}]], signal);
  return at(found, 'options.validator') ?? object([]);
}

function check(text: string): Problem[] {
  try {
    parseShell(text);
  } catch (error) {
    if (error instanceof ParseError) return [{ from: error.offset, to: error.offset + 1, message: error.message }];
  }
  return [];
}

export function Validator({ db, readOnly }: { db: string; readOnly: boolean }) {
  const loaded = useLoad((signal) => loadOptions(db, signal), [db]);
  const [text, setText] = useState<string>();
  const save = async () => {
    try {
      await command(...on(db, 'collMod', [['validator', parseShell(text ?? '{}')]]));
      done('Saved. Writes from now on must match.');
      setText(undefined);
      loaded.reload();
    } catch (error) {
      failed(error instanceof ParseError ? new Error(`At character ${error.offset + 1}: ${error.message}`) : error);
    }
  };
  return (
    <section class="panel" aria-label="Validation">
      <h2>Validation</h2>
      <p class="soft">
        A filter that every written document must match, such as <code>{'{ $jsonSchema: { required: ["name"] } }'}</code>. Empty braces allow everything.
      </p>
      <Shown of={loaded}>
        {(validator) => (
          <>
            <Editor value={text ?? pretty(validator)} onChange={setText} language="shell" label="Validator" readOnly={readOnly} check={check} lines={3} />
            {!readOnly && (
              <p class="section-end">
                <button type="button" disabled={text === undefined || text === pretty(validator)} onClick={save}>
                  Save the validator
                </button>
              </p>
            )}
          </>
        )}
      </Shown>
    </section>
  );
}
