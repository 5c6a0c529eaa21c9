// A mongosh session of an administrator over TLS. The test checks the last line that it prints.
const assert = require('node:assert/strict');

function refusal(action) {
  try {
    action();
  } catch (error) {
    return error.codeName ?? error.code;
  }
  return 'none';
}

db = db.getSiblingDB('shell');
db.createUser({ user: 'uma', pwd: 'one', roles: ['read'], customData: { team: 'shell' } });
assert.equal(db.getUser('uma').customData.team, 'shell');
assert.equal(db.getUsers().users.length, 1);
db.grantRolesToUser('uma', ['readWrite']);
assert.equal(db.getUser('uma').roles.length, 2);
db.createRole({ role: 'counter', privileges: [{ resource: { db: 'shell', collection: 'c' }, actions: ['find'] }], roles: [] });
assert.equal(db.getRole('counter', { showPrivileges: true }).privileges.length, 1);
db.grantRolesToUser('uma', ['counter']);
db.changeUserPassword('uma', 'two');
assert.equal(refusal(() => db.auth('uma', 'one')), 'AuthenticationFailed');
assert.equal(db.auth('uma', 'two').ok, 1);
assert.equal(db.runCommand({ connectionStatus: 1 }).authInfo.authenticatedUsers[0].user, 'uma');
assert.equal(refusal(() => db.dropRole('counter')), 'Unauthorized');
assert.equal(db.getSiblingDB('admin').auth('ada', 'secret').ok, 1);
db.dropRole('counter');
assert.equal(db.getUser('uma').roles.length, 2);
db.revokeRolesFromUser('uma', ['readWrite']);
assert.equal(refusal(() => db.createUser({ user: 'uma', pwd: 'x', roles: [] })), 'Location51003');
assert.equal(refusal(() => db.createUser({ user: 'odd', pwd: 'x', roles: ['missing'] })), 'RoleNotFound');
assert.equal(db.dropUser('uma').ok, 1);
assert.equal(db.runCommand({ connectionStatus: 1, showPrivileges: true }).authInfo.authenticatedUserRoles[0].role, 'root');
print('all is well');
