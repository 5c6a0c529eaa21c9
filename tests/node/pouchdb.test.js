// PouchDB against the HTTP face: as a remote database, and replicating both ways with an in-memory database.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import PouchDB from "pouchdb-core";
import find from "pouchdb-find";
import http from "pouchdb-adapter-http";
import mapreduce from "pouchdb-mapreduce";
import memory from "pouchdb-adapter-memory";
import replication from "pouchdb-replication";
import { MongoClient } from "mongodb";
import { until } from "./until.js";

PouchDB.plugin(memory).plugin(http).plugin(replication).plugin(mapreduce).plugin(find);

const base = process.env.DIWAN_URL;
const mongo = new MongoClient(process.env.DIWAN_URI);
let count = 0;

before(() => mongo.connect());
after(() => mongo.close());

/** A remote and a local database. The remote one is deleted at the end of the test. */
function databases(t) {
  const name = `pouch-${process.pid}-${++count}`;
  const remote = new PouchDB(base + name);
  const local = new PouchDB(name, { adapter: "memory" });
  t.after(async () => {
    await remote.destroy();
    await local.destroy();
  });
  return { name, remote, local, collection: mongo.db("test").collection(name) };
}

/** The replicated state of a database: winners, conflicts, deletions. */
async function state(db) {
  const { rows } = await db.allDocs({ include_docs: true, conflicts: true });
  return rows.map(({ doc }) => doc);
}

test("a remote database behaves like a local PouchDB", async (t) => {
  const { remote } = databases(t);
  const put = await remote.put({ _id: "a", n: 1 });
  await assert.rejects(remote.put({ _id: "a", n: 2 }), { status: 409, name: "conflict" });
  const doc = await remote.get("a");
  assert.deepEqual(doc, { _id: "a", _rev: put.rev, n: 1 });
  doc.n = 2;
  const second = await remote.put(doc);
  assert.equal((await remote.info()).doc_count, 1);
  await remote.remove("a", second.rev);
  await assert.rejects(remote.get("a"), { status: 404, reason: "deleted" });
  const { results } = await remote.changes({ include_docs: true });
  assert.deepEqual(results.map((row) => [row.id, row.deleted, row.doc._deleted]), [["a", true, true]]);
});

test("attachments replicate both ways", async (t) => {
  const { remote, local } = databases(t);
  const text = "x".repeat(5000);
  await local.put({
    _id: "doc",
    _attachments: {
      "text.txt": { content_type: "text/plain", data: Buffer.from(text) },
      "nul.bin": { content_type: "application/octet-stream", data: Buffer.from([0, 255, 0]) },
    },
  });
  await local.replicate.to(remote);
  assert.equal((await remote.getAttachment("doc", "text.txt")).toString(), text);
  const other = new PouchDB(`${local.name}-other`, { adapter: "memory" });
  t.after(() => other.destroy());
  await other.replicate.from(remote);
  assert.ok(Buffer.from([0, 255, 0]).equals(await other.getAttachment("doc", "nul.bin")));
  assert.equal((await other.get("doc"))._attachments["text.txt"].length, 5000);
});

test("conflicts replicate with the same winner and can be resolved", async (t) => {
  const { remote, local, collection } = databases(t);
  await local.put({ _id: "c", from: "both" });
  await local.replicate.to(remote);
  const [mine, theirs] = [await local.get("c"), await remote.get("c")];
  await local.put({ ...mine, from: "local" });
  await remote.put({ ...theirs, from: "remote" });
  await local.sync(remote);
  const [here, there] = [await local.get("c", { conflicts: true }), await remote.get("c", { conflicts: true })];
  assert.equal(here._conflicts.length, 1);
  assert.deepEqual(here, there);
  const winner = await collection.findOne({ _id: "c" });
  assert.equal(winner.from, here.from);
  await remote.remove("c", here._conflicts[0]);
  await local.sync(remote);
  assert.equal((await local.get("c", { conflicts: true }))._conflicts, undefined);
});

test("live sync includes writes of a MongoDB driver", async (t) => {
  const { remote, local, collection } = databases(t);
  await remote.info();
  const sync = local.sync(remote, { live: true, retry: true });
  const failures = [];
  sync.on("error", (error) => failures.push(error)).on("denied", (error) => failures.push(error));
  for (let n = 0; n < 40; n++) {
    if (n % 2) await local.put({ _id: `p${n}`, n });
    else await collection.insertOne({ _id: `m${n}`, n });
  }
  await collection.updateMany({ n: { $lt: 10 } }, { $set: { small: true } });
  await collection.deleteMany({ n: { $gte: 30 } });
  await until("both sides to be equal", async () => {
    const [here, there] = [await state(local), await state(remote)];
    return here.length >= 15 && isDeepStrictEqual(here, there);
  });
  await until("the update to come", async () => (await local.get("p1")).small === true);
  await until("the deletion to come", async () => local.get("m30").then(() => false, (error) => error.reason === "deleted"));
  sync.cancel();
  assert.deepEqual(failures, []);
  assert.equal(await collection.countDocuments(), (await local.info()).doc_count);
});

test("BSON types survive an edit in PouchDB", async (t) => {
  const { remote, local, collection } = databases(t);
  const { Long, Double, Decimal128, ObjectId } = await import("mongodb");
  await remote.info();
  const at = new Date("2020-02-02T02:02:02.020Z");
  const ref = new ObjectId();
  await collection.insertOne({
    _id: "t", __v: 3, long: Long.fromString("9007199254740993"), small: Long.fromNumber(5), double: new Double(1),
    price: Decimal128.fromString("1.10"), at, ref, text: "before",
  });
  await local.replicate.from(remote);
  const doc = await local.get("t");
  assert.equal(doc["$__v"], 3);
  await local.put({ ...doc, text: "after" });
  await local.replicate.to(remote);
  const raw = await collection.findOne({ _id: "t" }, { promoteLongs: false, promoteValues: false });
  assert.equal(raw.text, "after");
  assert.equal(raw.long.toString(), "9007199254740993");
  assert.equal(raw.small._bsontype, "Long");
  assert.equal(raw.double._bsontype, "Double");
  assert.equal(raw.price.toString(), "1.10");
  assert.equal(raw.at.getTime(), at.getTime());
  assert.ok(raw.ref.equals(ref));
  assert.equal(raw.__v.valueOf(), 3);
});

test("queries and views run on the server", async (t) => {
  const { remote } = databases(t);
  await remote.bulkDocs(Array.from({ length: 30 }, (_, n) => ({ _id: `d${n}`, n, tag: n % 3 ? "a" : "b" })));
  await remote.createIndex({ index: { fields: ["tag", "n"] } });
  const { docs } = await remote.find({ selector: { tag: "b", n: { $gt: 20 } }, sort: ["tag", "n"] });
  assert.deepEqual(docs.map((doc) => doc.n), [21, 24, 27]);
  await remote.put({
    _id: "_design/v",
    views: { tags: { map: "function (doc) { emit(doc.tag, doc.n) }", reduce: "_stats" } },
  });
  const { rows } = await remote.query("v/tags", { group: true });
  assert.deepEqual(rows.map((row) => [row.key, row.value.count]), [["a", 20], ["b", 10]]);
});
