// What a map function makes of a few documents.

import { compact } from '../../json/print.ts';
import { link } from '../../state/router.ts';
import { count } from '../../ui/basics.tsx';
import type { Fault, Trial } from './trial.ts';

const VALUE_LENGTH = 300;

/** The rows of a document that are shown. */
const MOST_ROWS = 20;

function short(text: string): string {
  return text.length > VALUE_LENGTH ? `${text.slice(0, VALUE_LENGTH)}…` : text;
}

export function FaultText({ fault }: { fault: Fault }) {
  return (
    <span class="problem">
      {fault.line !== undefined && `Line ${fault.line}: `}
      {fault.message}
    </span>
  );
}

export function TrialView({ db, trial }: { db: string; trial: Trial }) {
  const { documents, reduced, mapFault, reduceFault } = trial;
  const rows = documents.reduce((sum, document) => sum + document.rows.length, 0);
  const faults = documents.filter(({ fault }) => fault).length;
  return (
    <section class="trial" aria-label="Trial">
      {mapFault && (
        <p class="error-box" role="alert">
          Map: <FaultText fault={mapFault} />
        </p>
      )}
      {reduceFault && (
        <p class="error-box" role="alert">
          Reduce: <FaultText fault={reduceFault} />
        </p>
      )}
      <p class="soft" role="status">
        {count(documents.length)} {documents.length === 1 ? 'document emits' : 'documents emit'} {count(rows)} {rows === 1 ? 'row' : 'rows'}.{faults > 0 && ` The function fails on ${count(faults)} of them.`}
      </p>
      {reduced && (
        <p>
          All rows reduced: <code>{short(compact(reduced))}</code>
        </p>
      )}
      {documents.length > 0 && (
        <div class="wide-table panel" role="region" aria-label="Emitted rows" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Document</th>
                <th scope="col">Key</th>
                <th scope="col">Value</th>
              </tr>
            </thead>
            <tbody>
              {documents.map(({ id, rows, fault }) => {
                const lines = Math.max(1, Math.min(rows.length, MOST_ROWS));
                return Array.from({ length: lines }, (_, index) => (
                  <tr key={`${id} ${index}`}>
                    {index === 0 && (
                      <th scope="row" rowSpan={lines}>
                        <a class="mono" href={link(['db', db, 'doc', id])}>
                          {id}
                        </a>
                        {rows.length > MOST_ROWS && <span class="soft"> {count(rows.length)} rows</span>}
                      </th>
                    )}
                    {rows[index] ? (
                      <>
                        <td>
                          <code>{short(compact(rows[index].key))}</code>
                        </td>
                        <td>
                          <code>{short(compact(rows[index].value))}</code>
                        </td>
                      </>
                    ) : (
                      <td colSpan={2}>{fault ? <FaultText fault={fault} /> : <span class="soft">emits nothing</span>}</td>
                    )}
                  </tr>
                ));
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
