// One collection through two clients: what PouchDB sees of a driver's transactions, and a driver's change stream of PouchDB.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { MongoClient } from 'mongodb';
import PouchDB from 'pouchdb-core';
import http from 'pouchdb-adapter-http';
import memory from 'pouchdb-adapter-memory';
import replication from 'pouchdb-replication';
import { take, watch } from './streams.js';
import { until } from './until.js';

PouchDB.plugin(memory).plugin(http).plugin(replication);

const base = process.env.DIWAN_URL;
const mongo = new MongoClient(process.env.DIWAN_URI);
const db = mongo.db('test');
let count = 0;

before(() => mongo.connect());
after(() => mongo.close());

/** A new database over HTTP, with its collection. */
async function face(t) {
  const name = `faces-${process.pid}-${++count}`;
  const pouch = new PouchDB(base + name);
  await pouch.info();
  t.after(() => pouch.destroy());
  return { name, pouch, collection: db.collection(name) };
}

/** A change stream of some faces. */
async function stream(t, faces, options) {
  const names = faces.map(({ name }) => name);
  const opened = await watch(db, [{ $match: { 'ns.coll': { $in: names } } }], options);
  t.after(() => opened.close());
  return opened;
}

/** The changes that a live feed of PouchDB shows, as they come. */
function feed(t, pouch) {
  const seen = [];
  const changes = pouch.changes({ live: true, since: 0, include_docs: true, style: 'all_docs' });
  changes.on('change', (change) => seen.push(change)).on('error', (error) => seen.push(error));
  t.after(() => changes.cancel());
  return seen;
}

/** The documents of a feed, by id. */
const last = (seen) => Object.fromEntries(seen.map(({ id, doc }) => [id, doc]));

/** `POST /_transaction` of documents, each with its database. */
async function post(...docs) {
  const answer = await fetch(`${base}_transaction`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ docs: docs.map(([{ name }, doc]) => ({ db: name, doc })) }),
  });
  return { status: answer.status, ...(await answer.json()) };
}

const write = (event) => [event.operationType, event.documentKey._id, event.fullDocument?.n];

test('live feeds see nothing of an open transaction and all of it after the commit', async (t) => {
  const [one, two] = [await face(t), await face(t)];
  await one.collection.insertMany([{ _id: 'updated', n: 1 }, { _id: 'deleted', n: 1 }]);
  const feeds = [feed(t, one.pouch), feed(t, two.pouch)];
  const session = mongo.startSession();
  t.after(() => session.endSession());
  session.startTransaction();
  await one.collection.updateOne({ _id: 'updated' }, { $set: { n: 2 } }, { session });
  await one.collection.deleteOne({ _id: 'deleted' }, { session });
  await two.collection.insertMany([{ _id: 'first', n: 2 }, { _id: 'second', n: 2 }], { session });
  for (const { pouch } of [one, two]) await pouch.put({ _id: 'outside' });
  await until('the writes outside', () => feeds.every((seen) => seen.at(-1)?.id === 'outside'));
  assert.deepEqual(feeds.map((seen) => seen.map(({ id }) => id).sort()), [['deleted', 'outside', 'updated'], ['outside']]);
  assert.ok(feeds.flat().every(({ doc }) => doc.n !== 2 && !doc._deleted));
  await assert.rejects(two.pouch.get('first'), { status: 404 });

  await session.commitTransaction();
  await until('the transaction', () => feeds[0].length === 5 && feeds[1].length === 3);
  const { updated, deleted } = last(feeds[0]);
  assert.deepEqual([updated.n, deleted._deleted], [2, true]);
  const { first, second } = last(feeds[1]);
  assert.deepEqual([first.n, second.n], [2, 2]);
  assert.deepEqual([updated, deleted, first, second].map(({ _rev }) => _rev.split('-')[0]), ['2', '2', '1', '1']);
  assert.deepEqual(await one.pouch.get('updated', { rev: updated._rev }), updated);
  assert.deepEqual(await one.pouch.get('deleted', { rev: deleted._rev }), deleted);
  assert.deepEqual(await two.pouch.get('first', { rev: first._rev }), first);
  const before = feeds[0].find(({ id }) => id === 'updated').doc;
  const { _revisions } = await one.pouch.get('updated', { revs: true });
  assert.equal(`1-${_revisions.ids[1]}`, before._rev);
});

test('live feeds see nothing of a transaction that is aborted', async (t) => {
  const one = await face(t);
  const seen = feed(t, one.pouch);
  const session = mongo.startSession();
  t.after(() => session.endSession());
  session.startTransaction();
  await one.collection.insertOne({ _id: 'aborted' }, { session });
  await session.abortTransaction();
  await one.pouch.put({ _id: 'later' });
  await until('the later document', () => seen.some(({ id }) => id === 'later'));
  assert.deepEqual(seen.map(({ id }) => id), ['later']);
});

test("a driver's stream shows PouchDB's put, update and remove in their order", async (t) => {
  const one = await face(t);
  const events = await stream(t, [one]);
  const { rev } = await one.pouch.put({ _id: 'a', n: 1 });
  const second = await one.pouch.put({ _id: 'a', _rev: rev, n: 2 });
  await one.pouch.bulkDocs([{ _id: 'b', n: 1 }, { _id: 'c', n: 1 }]);
  await one.pouch.remove('a', second.rev);
  await one.pouch.put({ _id: 'a', n: 3 });
  assert.deepEqual((await take(events, 6)).map(write), [
    ['insert', 'a', 1],
    ['replace', 'a', 2],
    ['insert', 'b', 1],
    ['insert', 'c', 1],
    ['delete', 'a', undefined],
    ['insert', 'a', 3],
  ]);
});

test("a driver's stream shows only the winners of replicated conflicts", async (t) => {
  const one = await face(t);
  const events = await stream(t, [one]);
  const local = new PouchDB(one.name, { adapter: 'memory' });
  t.after(() => local.destroy());
  /** Replicates a revision of the document `c`. Its ancestors are named from the newest to the oldest. */
  const replicate = async (n, ids, more = {}) => {
    const _revisions = { start: ids.length, ids };
    await local.bulkDocs([{ _id: 'c', _rev: `${ids.length}-${ids[0]}`, _revisions, n, ...more }], { new_edits: false });
    await local.replicate.to(one.pouch);
  };
  const [a, b] = ['a', 'b'].map((digit) => (generation) => digit.repeat(31) + generation);
  await replicate('b1', [b(1)]);
  await replicate('a1', [a(1)]);
  await replicate('a2', [a(2), a(1)]);
  await replicate('b2', [b(2), b(1)]);
  await replicate('a2 again', [a(3), a(1)]);
  assert.equal((await one.pouch.get('c', { conflicts: true }))._conflicts.length, 2);
  await replicate(undefined, [b(3), b(2), b(1)], { _deleted: true });
  await one.pouch.put({ _id: 'end' });
  assert.deepEqual((await take(events, 5)).map(write), [
    ['insert', 'c', 'b1'],
    ['replace', 'c', 'a2'],
    ['replace', 'c', 'b2'],
    ['replace', 'c', 'a2 again'],
    ['insert', 'end', undefined],
  ]);
  assert.equal((await one.collection.findOne({ _id: 'c' })).n, 'a2 again');
});

test("a transaction over HTTP is one transaction in a driver's stream", async (t) => {
  const [one, two] = [await face(t), await face(t)];
  const { rev } = await one.pouch.put({ _id: 'a', n: 1 });
  const events = await stream(t, [one, two]);
  assert.equal((await post([one, { _id: 'b', n: 1 }], [two, { _id: 'x', n: 1 }])).status, 201);
  const refused = await post([two, { _id: 'y', n: 1 }], [one, { _id: 'a', n: 2 }]);
  assert.deepEqual([refused.status, refused.error, refused.docs.map(({ id }) => id)], [409, 'conflict', ['a']]);
  const accepted = await post([two, { _id: 'y', n: 2 }], [one, { _id: 'a', _rev: rev, n: 2 }]);
  assert.equal(accepted.status, 201);
  const seen = await take(events, 4);
  const times = seen.map(({ clusterTime }) => String(clusterTime));
  const place = (event) => (event.ns.coll === one.name ? 'one' : 'two');
  assert.deepEqual(seen.map((event) => [place(event), ...write(event)]).sort(), [
    ['one', 'insert', 'b', 1],
    ['one', 'replace', 'a', 2],
    ['two', 'insert', 'x', 1],
    ['two', 'insert', 'y', 2],
  ]);
  assert.ok(times[0] === times[1] && times[2] === times[3] && times[0] !== times[2], times.join());
  assert.equal((await one.pouch.get('a'))._rev, accepted.docs[1].rev);
});

test("a transaction over HTTP is atomic for a driver's snapshots", async (t) => {
  const [one, two] = [await face(t), await face(t)];
  let revs = (await post([one, { _id: 'd', n: 0 }], [two, { _id: 'd', n: 0 }])).docs.map(({ rev }) => rev);
  const both = (use) =>
    mongo.withSession({ snapshot: true }, async (session) => {
      const first = await one.collection.findOne({ _id: 'd' }, { session });
      await use?.();
      const second = await two.collection.findOne({ _id: 'd' }, { session });
      return [first.n, second.n];
    });
  const increase = async (n) => {
    const answer = await post([one, { _id: 'd', _rev: revs[0], n }], [two, { _id: 'd', _rev: revs[1], n }]);
    assert.equal(answer.status, 201);
    revs = answer.docs.map(({ rev }) => rev);
  };
  assert.deepEqual(await both(() => increase(1)), [0, 0]);
  assert.deepEqual(await both(), [1, 1]);
  let done = false;
  const writer = (async () => {
    for (let n = 2; n <= 40; n++) await increase(n);
    done = true;
  })();
  const pairs = [];
  while (!done) pairs.push(await both());
  await writer;
  assert.ok(pairs.every(([first, second]) => first === second), JSON.stringify(pairs));
  assert.deepEqual(await both(), [40, 40]);
});

test("an open transaction and PouchDB's writes of the same document exclude each other", async (t) => {
  const one = await face(t);
  const { rev } = await one.pouch.put({ _id: 'a', n: 1 });
  const session = mongo.startSession();
  t.after(() => session.endSession());
  session.startTransaction();
  await one.collection.findOne({ _id: 'a' }, { session });
  await one.pouch.put({ _id: 'a', _rev: rev, n: 2 });
  await assert.rejects(one.collection.updateOne({ _id: 'a' }, { $inc: { n: 10 } }, { session }), { code: 112 });
  await session.abortTransaction();

  session.startTransaction();
  await one.collection.updateOne({ _id: 'a' }, { $inc: { n: 10 } }, { session });
  const waiting = one.pouch.put({ ...(await one.pouch.get('a')), n: 3 }).then(() => 'stored', (error) => error.status);
  await session.commitTransaction();
  assert.equal(await waiting, 409);
  assert.equal((await one.pouch.get('a')).n, 12);
});
