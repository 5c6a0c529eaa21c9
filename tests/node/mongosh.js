// A mongosh session. The test checks the last line that it prints.
const assert = require('node:assert/strict');

// mongosh awaits calls in the script's own functions, but not in callbacks of libraries.
function refusal(action) {
  try {
    action();
  } catch (error) {
    return error.codeName ?? error.code;
  }
  return 'none';
}

db = db.getSiblingDB('mongosh');
db.dropDatabase();
db.cars.insertMany([{ _id: 1, make: 'Škoda', year: 1998 }, { _id: 2, make: 'Tatra', year: 1965 }]);
assert.equal(db.cars.countDocuments(), 2);
assert.equal(EJSON.stringify(db.cars.find({ year: { $gt: 1970 } }).toArray()), '[{"_id":1,"make":"Škoda","year":1998}]');
assert.equal(db.cars.updateOne({ _id: 1 }, { $inc: { year: 1 } }).modifiedCount, 1);
assert.equal(db.cars.createIndex({ make: 1 }, { unique: true }), 'make_1');
assert.equal(refusal(() => db.cars.insertOne({ make: 'Tatra' })), 11000);
assert.equal(db.cars.getIndexes().length, 2);
assert.equal(db.cars.find({ make: 'Tatra' }).explain().queryPlanner.winningPlan.inputStage.stage, 'IXSCAN');
assert.equal(db.cars.aggregate([{ $group: { _id: null, n: { $sum: 1 } } }]).toArray()[0].n, 2);
assert.equal(db.cars.stats().count, 2);
assert.equal(db.cars.validate().valid, true);
assert.ok(db.stats().collections >= 1);
assert.ok(db.serverStatus().uptime >= 0);
assert.ok(db.version().length > 0);
assert.equal(db.hello().isWritablePrimary, true);
assert.equal(rs.status().ok, 1);
assert.equal(rs.status().members.length, 1);
assert.equal(rs.conf().members.length, 1);
assert.ok(db.adminCommand({ listDatabases: 1 }).databases.map((database) => database.name).includes('mongosh'));
assert.equal(db.getCollectionNames().join(), 'cars');
assert.ok(Array.isArray(db.currentOp().inprog));
assert.equal(db.getMongo().getDB('admin').runCommand({ connectionStatus: 1 }).ok, 1);
const session = db.getMongo().startSession();
session.getDatabase('mongosh').cars.deleteOne({ _id: 2 });
session.endSession();
const cursor = db.cars.find().batchSize(1);
assert.equal(cursor.hasNext(), true);
assert.equal(cursor.next().make, 'Škoda');
assert.equal(refusal(() => db.runCommand({ nonsense: 1 })), 'CommandNotFound');
assert.equal(db.cars.renameCollection('vehicles').ok, 1);
assert.equal(db.vehicles.drop(), true);
assert.equal(db.dropDatabase().ok, 1);
print('all is well');
