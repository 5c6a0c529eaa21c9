// RxDB's CouchDB replication: writes of the app reach the server, and writes of a MongoDB driver reach the app.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { MongoClient } from "mongodb";
import { createRxDatabase } from "rxdb/plugins/core";
import { replicateCouchDB } from "rxdb/plugins/replication-couchdb";
import { getRxStorageMemory } from "rxdb/plugins/storage-memory";
import { until } from "./until.js";

const mongo = new MongoClient(process.env.DIWAN_URI);
const name = `rxdb-${process.pid}`;

before(async () => {
  await mongo.connect();
  assert.equal((await fetch(process.env.DIWAN_URL + name, { method: "PUT" })).status, 201);
});
after(() => mongo.close());

test("an RxDB collection and a MongoDB collection converge", async () => {
  const collection = mongo.db("test").collection(name);
  await collection.insertOne({ _id: "from-mongo", title: "first" });
  const database = await createRxDatabase({ name, storage: getRxStorageMemory() });
  const { tasks } = await database.addCollections({
    tasks: {
      schema: {
        version: 0,
        primaryKey: "id",
        type: "object",
        properties: { id: { type: "string", maxLength: 100 }, title: { type: "string" } },
        required: ["id", "title"],
      },
    },
  });
  const failures = [];
  const replication = replicateCouchDB({
    replicationIdentifier: name,
    collection: tasks,
    url: `${process.env.DIWAN_URL}${name}/`,
    live: true,
    pull: { batchSize: 10 },
    push: { batchSize: 10 },
  });
  replication.error$.subscribe((error) => failures.push(error));
  await replication.awaitInitialReplication();
  assert.equal((await tasks.findOne("from-mongo").exec()).title, "first");

  const own = await tasks.insert({ id: "from-app", title: "second" });
  await until("the app's document", () => collection.findOne({ _id: "from-app" }));
  await own.patch({ title: "third" });
  await until("the app's edit", async () => (await collection.findOne({ _id: "from-app" })).title === "third");
  await collection.updateOne({ _id: "from-mongo" }, { $set: { title: "edited" } });
  await until("the driver's edit", async () => (await tasks.findOne("from-mongo").exec()).title === "edited");
  await collection.deleteOne({ _id: "from-mongo" });
  await until("the driver's deletion", async () => (await tasks.findOne("from-mongo").exec()) === null);
  await (await tasks.findOne("from-app").exec()).remove();
  await until("the app's deletion", async () => (await collection.countDocuments()) === 0);

  await replication.cancel();
  await database.close();
  assert.deepEqual(failures, []);
});
