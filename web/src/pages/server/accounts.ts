// Users and roles, by MongoDB's commands.

import { command, plainCommand } from '../../api/command.ts';
import { field, type Node } from '../../json/node.ts';

export interface RoleName {
  readonly role: string;
  readonly db: string;
}

export interface User {
  readonly user: string;
  readonly db: string;
  readonly roles: readonly RoleName[];
  readonly mechanisms?: readonly string[];
  readonly authenticationRestrictions?: unknown;
}

export interface Role {
  readonly role: string;
  readonly db: string;
  readonly isBuiltin: boolean;
  readonly roles: readonly RoleName[];
  /** The privileges of the role itself, as documents. */
  readonly privileges: readonly Node[];
}

/** All users, by name. */
export async function loadUsers(signal: AbortSignal): Promise<User[]> {
  const { users } = await plainCommand<{ users: User[] }>('admin', [['usersInfo', { forAllDBs: true }]], signal);
  return users.sort((a, b) => a.user.localeCompare(b.user) || a.db.localeCompare(b.db));
}

/** The roles of a database with their privileges: built-in ones too if `withBuiltin`. */
export async function loadRoles(db: string, withBuiltin: boolean, signal: AbortSignal): Promise<Role[]> {
  const answer = await command(db, [['rolesInfo', 1], ['showPrivileges', true], ['showBuiltinRoles', withBuiltin]], signal);
  const roles = field(answer, 'roles');
  return roles?.kind === 'array' ? roles.items.map(roleOf) : [];
}

function roleOf(node: Node): Role {
  const text = (name: string, of = node) => {
    const value = field(of, name);
    return value?.kind === 'string' ? value.value : '';
  };
  const items = (name: string) => {
    const value = field(node, name);
    return value?.kind === 'array' ? value.items : [];
  };
  const builtin = field(node, 'isBuiltin');
  return {
    role: text('role'),
    db: text('db'),
    isBuiltin: builtin?.kind === 'boolean' && builtin.value,
    roles: items('roles').map((item) => ({ role: text('role', item), db: text('db', item) })),
    privileges: items('privileges'),
  };
}

/** The roles that every database has. */
export const DATABASE_ROLES = ['read', 'readWrite', 'dbAdmin', 'userAdmin', 'dbOwner'];

/** The roles of the database `admin` alone. */
export const SERVER_ROLES = ['root', 'readAnyDatabase', 'readWriteAnyDatabase', 'dbAdminAnyDatabase', 'userAdminAnyDatabase', 'clusterMonitor', 'clusterManager', 'clusterAdmin', 'backup', 'restore'];

export function createUser(name: string, password: string, db: string, roles: readonly RoleName[]): Promise<unknown> {
  return plainCommand(db, [['createUser', name], ['pwd', password], ['roles', roles]]);
}

/** Changes a password, roles, or both. */
export function updateUser(name: string, db: string, changes: { pwd?: string; roles?: readonly RoleName[] }): Promise<unknown> {
  return plainCommand(db, [['updateUser', name], ['pwd', changes.pwd], ['roles', changes.roles]]);
}

export function dropUser(name: string, db: string): Promise<unknown> {
  return plainCommand(db, [['dropUser', name]]);
}

export function dropRole(name: string, db: string): Promise<unknown> {
  return plainCommand(db, [['dropRole', name]]);
}

/** Creates a role, or replaces what an existing one allows. */
export function writeRole(isNew: boolean, name: string, db: string, privileges: Node, roles: readonly RoleName[]): Promise<unknown> {
  return plainCommand(db, [[isNew ? 'createRole' : 'updateRole', name], ['privileges', privileges], ['roles', roles]]);
}
