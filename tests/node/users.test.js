// Clients that sign in: the driver and mongoose, nano, PouchDB with Basic, with a cookie and with pouchdb-authentication.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { MongoClient } from "mongodb";
import mongoose from "mongoose";
import nano from "nano";
import PouchDB from "pouchdb-core";
import authentication from "pouchdb-authentication";
import http from "pouchdb-adapter-http";
import memory from "pouchdb-adapter-memory";
import replication from "pouchdb-replication";

PouchDB.plugin(memory).plugin(http).plugin(replication).plugin(authentication);

const { DIWAN_URI: uri, DIWAN_URL: url, DIWAN_USER: administrator, DIWAN_PASSWORD: password } = process.env;
const name = `signed-${process.pid}`;
const root = new MongoClient(uri, { auth: { username: administrator, password } });
const rejection = async (promise) => promise.then(() => assert.fail("the request was not refused"), (error) => error);

before(async () => {
  await root.connect();
  await root.db("test").createCollection(name);
  await root.db("test").command({ createUser: name, pwd: "päss word", roles: ["readWrite"] });
});
after(async () => {
  await root.db("test").dropCollection(name);
  await root.db("test").command({ dropUser: name });
  await root.close();
});

for (const authMechanism of ["SCRAM-SHA-1", "SCRAM-SHA-256"]) {
  test(`the driver signs in with ${authMechanism}`, async () => {
    const client = new MongoClient(uri, { auth: { username: name, password: "päss word" }, authSource: "test", authMechanism });
    await client.db("test").collection(name).insertOne({ by: authMechanism });
    assert.equal((await rejection(client.db("other").collection("x").insertOne({}))).code, 13);
    await client.close();
  });
}

test("mongoose signs in by its URI", async () => {
  const address = uri.replace("mongodb://", `mongodb://${name}:${encodeURIComponent("päss word")}@`) + "&authSource=test";
  const connection = await mongoose.createConnection(address, { dbName: "test" }).asPromise();
  const Note = connection.model("Note", new mongoose.Schema({ text: String }), name);
  const note = await Note.create({ text: "signed" });
  assert.equal((await Note.findById(note.id)).text, "signed");
  await connection.close();
});

test("nano signs in with Basic and with a cookie", async () => {
  const withUser = new URL(url);
  [withUser.username, withUser.password] = [name, encodeURIComponent("päss word")];
  const server = nano(withUser.href.replace(/\/$/, ""));
  const { ok } = await server.use(name).insert({ a: 1 }, "by-nano");
  assert.ok(ok);
  assert.equal((await server.session()).userCtx.name, name);
  assert.ok([401, 403].includes((await rejection(server.db.create("elsewhere/x"))).statusCode));
  const other = nano(url.replace(/\/$/, ""));
  assert.equal((await rejection(other.auth(name, "wrong"))).statusCode, 401);
});

test("PouchDB replicates with Basic", async () => {
  const remote = new PouchDB(url + name, { skip_setup: true, auth: { username: name, password: "päss word" } });
  const local = new PouchDB(`${name}-basic`, { adapter: "memory" });
  await local.put({ _id: "from-pouch", n: 1 });
  await local.sync(remote);
  assert.equal((await remote.get("from-pouch")).n, 1);
  assert.equal((await local.get("by-nano")).a, 1);
  const stranger = new PouchDB(url + name, { skip_setup: true });
  assert.equal((await rejection(stranger.get("from-pouch"))).status, 401);
  await local.destroy();
});

test("pouchdb-authentication signs up, in and out", async () => {
  const admin = new PouchDB(url + name, { skip_setup: true, auth: { username: administrator, password } });
  const user = `pouch-${process.pid}`;
  await admin.signUp(user, "secret", { metadata: { email: "a@b.c" } });
  // The plugin signs in by requests of its own; in Node it shares no cookies with the database's.
  let cookie;
  const signIn = async (secret) => {
    const body = JSON.stringify({ name: user, password: secret });
    const answer = await fetch(`${url}_session`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
    cookie = answer.headers.get("set-cookie")?.split(";")[0];
    return answer.status;
  };
  const remote = new PouchDB(url + name, {
    skip_setup: true,
    fetch: (address, options) => fetch(address, { ...options, headers: { ...Object.fromEntries(options.headers), Cookie: cookie } }),
  });
  assert.equal((await rejection(remote.logIn(user, "wrong"))).status, 401);
  assert.equal((await remote.logIn(user, "secret")).name, user);
  assert.equal((await remote.getSession()).userCtx.name, user);
  assert.equal((await remote.getUser(user)).email, "a@b.c");
  assert.equal(await signIn("secret"), 200);
  assert.equal((await rejection(remote.get("from-pouch"))).status, 403);
  await root.db("test").command({ grantRolesToUser: name, roles: ["read"] });
  const security = { members: { names: [user], roles: [] }, admins: { names: [], roles: [] } };
  const answer = await fetch(`${url}${name}/_security`, {
    method: "PUT",
    body: JSON.stringify(security),
    headers: { Authorization: `Basic ${Buffer.from(`${administrator}:${password}`).toString("base64")}` },
  });
  assert.equal(answer.status, 200);
  assert.equal((await remote.get("from-pouch")).n, 1);
  await remote.changePassword(user, "changed");
  assert.equal((await rejection(remote.get("from-pouch"))).status, 401, "a session ends with its password");
  assert.deepEqual([await signIn("secret"), await signIn("changed")], [401, 200]);
  assert.equal((await remote.get("from-pouch")).n, 1);
  await remote.logOut();
});
