// nano against the HTTP face: databases, documents, bulk, queries, views, attachments, changes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import nano from "nano";

const server = nano(process.env.DIWAN_URL.replace(/\/$/, ""));
const name = `nano-${process.pid}`;
let db;

before(async () => {
  await server.db.create(name);
  db = server.use(name);
});
after(() => server.db.destroy(name));

const rejection = async (promise) => promise.then(() => assert.fail("the request was not refused"), (error) => error);

test("databases are created once, listed and described", async () => {
  assert.ok((await server.db.list()).includes(name));
  const info = await server.db.get(name);
  assert.equal(info.db_name, name);
  assert.equal(info.doc_count, 0);
  const again = await rejection(server.db.create(name));
  assert.equal(again.statusCode, 412);
  assert.equal(again.error, "file_exists");
  assert.equal((await rejection(server.use("nano-none").get("x"))).reason, "Database does not exist.");
});

test("documents are written, read, updated, copied and deleted", async () => {
  const first = await db.insert({ model: "Beetle", wheels: 4 }, "car");
  assert.match(first.rev, /^1-[0-9a-f]{32}$/);
  assert.deepEqual(await db.get("car"), { _id: "car", _rev: first.rev, model: "Beetle", wheels: 4 });
  const second = await db.insert({ _rev: first.rev, model: "Beetle", wheels: 3 }, "car");
  const stale = await rejection(db.insert({ _rev: first.rev, model: "?" }, "car"));
  assert.deepEqual([stale.statusCode, stale.error, stale.reason], [409, "conflict", "Document update conflict."]);
  const head = await db.head("car");
  assert.equal(head.etag, `"${second.rev}"`);
  const { _revisions: revisions } = await db.get("car", { revs: true });
  assert.deepEqual(revisions.ids.map((id, at) => `${revisions.start - at}-${id}`), [second.rev, first.rev]);
  const gone = await db.destroy("car", second.rev);
  assert.match(gone.rev, /^3-/);
  assert.equal((await rejection(db.get("car"))).reason, "deleted");
  assert.equal((await rejection(db.get("never"))).reason, "missing");
});

test("bulk documents are found by _find and by a view", async () => {
  const docs = Array.from({ length: 50 }, (_, n) => ({ _id: `p${String(n).padStart(2, "0")}`, n, even: n % 2 === 0 }));
  const written = await db.bulk({ docs });
  assert.ok(written.every((row, at) => row.ok && row.id === docs[at]._id));
  const again = await db.bulk({ docs: docs.slice(0, 2) });
  assert.deepEqual(again.map((row) => row.error), ["conflict", "conflict"]);
  const keys = await db.fetch({ keys: ["p03", "none", "p01"] });
  assert.deepEqual(keys.rows.map((row) => row.error ?? row.doc.n), [3, "not_found", 1]);
  const range = await db.list({ startkey: "p10", endkey: "p12" });
  assert.deepEqual(range.rows.map((row) => row.id), ["p10", "p11", "p12"]);

  await db.createIndex({ index: { fields: ["n"] }, name: "by-n", ddoc: "indexes" });
  const found = await db.find({ selector: { n: { $gte: 45 }, even: true }, sort: [{ n: "desc" }], fields: ["n"] });
  assert.deepEqual(found.docs, [{ n: 48 }, { n: 46 }]);

  await db.insert(
    {
      views: {
        parity: { map: "function (doc) { if ('n' in doc) emit(doc.even, doc.n); }", reduce: "_sum" },
      },
    },
    "_design/numbers",
  );
  const sums = await db.view("numbers", "parity", { group: true });
  assert.deepEqual(sums.rows, [{ key: false, value: 625 }, { key: true, value: 600 }]);
  const rows = await db.view("numbers", "parity", { key: true, reduce: false, limit: 2, include_docs: true });
  assert.deepEqual(rows.rows.map((row) => [row.id, row.value, row.doc.n]), [["p00", 0, 0], ["p02", 2, 2]]);
});

test("attachments are stored and returned", async () => {
  const bytes = Buffer.from([0, 1, 2, 250, 251, 252]);
  const { rev } = await db.attachment.insert("withfile", "a/b.bin", bytes, "application/octet-stream");
  assert.deepEqual(await db.attachment.get("withfile", "a/b.bin"), bytes);
  const doc = await db.get("withfile");
  assert.equal(doc._attachments["a/b.bin"].length, 6);
  assert.equal(doc._attachments["a/b.bin"].stub, true);
  await db.attachment.destroy("withfile", "a/b.bin", { rev });
  assert.equal((await db.get("withfile"))._attachments, undefined);
});

test("a continuous feed reports changes", async () => {
  const { last_seq: since } = await db.changes({ limit: 1, descending: true });
  const seen = [];
  const reader = db.changesReader.start({ since, timeout: 5000, wait: false });
  const done = new Promise((resolve, reject) => {
    reader.on("change", (change) => {
      seen.push(change.id);
      if (seen.length === 2) resolve();
    });
    reader.on("error", reject);
  });
  await db.insert({}, "one");
  await db.insert({}, "two");
  await done;
  db.changesReader.stop();
  assert.deepEqual(seen, ["one", "two"]);
});
