// Chooses, field by field, what a merged document contains.

import { useState } from 'preact/hooks';
import { type Node } from '../../json/node.ts';
import { ParseError, parseShell } from '../../json/parse.ts';
import { compact, pretty, typeName } from '../../json/print.ts';
import { pathKey, type Choice, type FieldPair } from './fields.ts';

interface FieldMergeProps {
  pairs: readonly FieldPair[];
  /** What the two versions are called. */
  labels: readonly [left: string, right: string];
  choices: ReadonlyMap<string, Choice>;
  /** Nothing if the versions are only compared. */
  onChoose?: (key: string, choice: Choice) => void;
}

/** The characters of a value that are shown. */
const SHOWN = 4000;

/** The fields of two versions side by side. Differing ones come with a choice. */
export function FieldMerge({ pairs, labels, choices, onChoose }: FieldMergeProps) {
  const [withEqual, setWithEqual] = useState(false);
  const differing = pairs.filter(({ differs }) => differs);
  const shown = withEqual ? pairs : differing;
  return (
    <div class="field-merge">
      <div class="toolbar">
        <span>
          {differing.length === 0 ? 'The two versions have the same fields.' : `${differing.length} of ${pairs.length} fields differ.`}
        </span>
        <span class="space" />
        <label class="check">
          <input type="checkbox" checked={withEqual} onChange={(event) => setWithEqual(event.currentTarget.checked)} />
          Show equal fields
        </label>
      </div>
      {shown.length > 0 && (
        <div class="wide-table" role="region" aria-label="Fields of both versions" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">{labels[0]}</th>
                <th scope="col">{labels[1]}</th>
                {onChoose && <th scope="col">Take</th>}
              </tr>
            </thead>
            <tbody>
              {shown.map((pair) => {
                const key = pathKey(pair.path);
                return (
                  <tr key={key} class={pair.differs ? 'differs' : undefined}>
                    <th scope="row">
                      <code>{pair.path.join('.')}</code> <span class={pair.differs ? 'badge warning' : 'badge'}>{stateOf(pair)}</span>
                    </th>
                    <td>
                      <Value node={pair.left} />
                    </td>
                    <td>
                      <Value node={pair.right} />
                    </td>
                    {onChoose && <td>{pair.differs && <Chooser pair={pair} labels={labels} choice={choices.get(key)} onChoose={(choice) => onChoose(key, choice)} />}</td>}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

function stateOf({ left, right, differs }: FieldPair): string {
  if (!differs) return 'equal';
  return left === undefined ? 'only right' : right === undefined ? 'only left' : 'differs';
}

function Value({ node }: { node: Node | undefined }) {
  if (!node) return <span class="soft">not there</span>;
  const text = pretty(node);
  return (
    <>
      <pre>{text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text}</pre>
      {text.length > SHOWN && <span class="soft">The first {SHOWN} characters.</span>} <span class="soft">{typeName(node)}</span>
    </>
  );
}

interface ChooserProps {
  pair: FieldPair;
  labels: readonly [string, string];
  choice: Choice | undefined;
  onChoose: (choice: Choice) => void;
}

function Chooser({ pair, labels, choice, onChoose }: ChooserProps) {
  const name = pair.path.join('.');
  const group = `take ${pathKey(pair.path)}`;
  const [problem, setProblem] = useState<string>();
  const write = (text: string) => {
    try {
      onChoose({ from: 'typed', text, value: parseShell(text) });
      setProblem(undefined);
    } catch (error) {
      if (!(error instanceof ParseError)) throw error;
      onChoose({ from: 'typed', text, value: undefined });
      setProblem(error.message);
    }
  };
  const first = pair.left ?? pair.right;
  const side = (from: 'left' | 'right', label: string, value: Node | undefined) => (
    <label class="check">
      <input type="radio" name={group} checked={choice?.from === from} onChange={() => onChoose({ from })} aria-label={`${name}: take ${label}`} />
      {value === undefined ? `${label}: leave it out` : label}
    </label>
  );
  return (
    <div class="chooser">
      {side('left', labels[0], pair.left)}
      {side('right', labels[1], pair.right)}
      <label class="check">
        <input type="radio" name={group} checked={choice?.from === 'typed'} onChange={() => write(first ? compact(first) : '')} aria-label={`${name}: take another value`} />
        Another value
      </label>
      {choice?.from === 'typed' && (
        <>
          <textarea class="mono" rows={2} aria-label={`Value of ${name}`} aria-invalid={problem !== undefined} value={choice.text} onInput={(event) => write(event.currentTarget.value)} />
          {problem && (
            <span class="problem" role="alert">
              {problem}
            </span>
          )}
        </>
      )}
    </div>
  );
}
