// Chooses roles.

import { useState } from 'preact/hooks';
import { databases } from '../../state/databases.ts';
import { DATABASE_ROLES, SERVER_ROLES, type RoleName } from './accounts.ts';

interface Props {
  roles: readonly RoleName[];
  onChange: (roles: readonly RoleName[]) => void;
  /** Roles that people have defined. */
  own: readonly RoleName[];
}

export function RolePicker({ roles, onChange, own }: Props) {
  const [db, setDb] = useState('admin');
  const groups = [...new Set(['admin', 'test', ...(databases.value ?? []).map(({ group }) => group)])].sort();
  const offered = [...(db === 'admin' ? SERVER_ROLES : []), ...DATABASE_ROLES, ...own.filter((role) => role.db === db).map(({ role }) => role)];
  const [role, setRole] = useState('root');
  const chosen = offered.includes(role) ? role : offered[0]!;
  const has = roles.some((each) => each.role === chosen && each.db === db);
  return (
    <fieldset class="role-picker">
      <legend>Roles</legend>
      <ul>
        {roles.map((each) => (
          <li key={`${each.db}.${each.role}`}>
            <span class="badge">
              {each.role} on {each.db}
            </span>
            <button type="button" class="icon" aria-label={`Remove ${each.role} on ${each.db}`} onClick={() => onChange(roles.filter((other) => other !== each))}>
              ×
            </button>
          </li>
        ))}
        {roles.length === 0 && <li class="soft">none</li>}
      </ul>
      <div class="toolbar">
        <select aria-label="Role" value={chosen} onChange={(event) => setRole(event.currentTarget.value)}>
          {offered.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
        on
        <select aria-label="Database of the role" value={db} onChange={(event) => setDb(event.currentTarget.value)}>
          {groups.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
        <button type="button" disabled={has} onClick={() => onChange([...roles, { role: chosen, db }])}>
          Add the role
        </button>
      </div>
    </fieldset>
  );
}
