// How programs connect to this server.

import { useState } from 'preact/hooks';
import { httpUri, loadStatus, mongoUri, type Status } from '../../api/status.ts';
import { useLoad } from '../../state/load.ts';
import { remembered } from '../../state/remembered.ts';
import { session } from '../../state/session.ts';
import { Segments, Shown } from '../../ui/basics.tsx';
import { Code } from '../../ui/copy.tsx';
import { programs } from './programs.ts';

const choice = remembered<string>('connect.program', 'mongosh');

export function ConnectPage() {
  const status = useLoad(loadStatus, []);
  return (
    <div class="page">
      <Shown of={status}>{(value) => <Connect status={value} />}</Shown>
    </div>
  );
}

/** The addresses of both faces, and the first lines of a program. */
export function Connect({ status }: { status: Status }) {
  const user = session.value?.user ?? null;
  const all = programs(status, user);
  const [chosen, setChosen] = useState(choice.get);
  const program = all.find(({ name }) => name === chosen) ?? all[0]!;
  return (
    <section class="connect" aria-label="Connect">
      <div class="cards">
        <div>
          <h3>MongoDB’s drivers</h3>
          <Code label="Address for MongoDB's drivers" text={mongoUri(status, user)} />
        </div>
        <div>
          <h3>CouchDB’s clients</h3>
          <Code label="Address for CouchDB's clients" text={`${httpUri(user)}/`} />
        </div>
      </div>
      {user !== null && <p class="soft">Put your password in the place of PASSWORD, with % signs for special characters.</p>}
      <div class="program-choice">
        <Segments
          label="Client"
          options={all.map(({ name }) => [name, name] as const)}
          value={program.name}
          onChange={(name) => {
            choice.set(name);
            setChosen(name);
          }}
        />
      </div>
      <p class="soft">
        <code>{program.install}</code>
      </p>
      <Code label={`Program for ${program.name}`} text={program.code} />
    </section>
  );
}
