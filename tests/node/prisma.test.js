// Prisma Next: its contract and migrations, its ORM, and transactions and change streams on the client that it shares.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { defineConfig } from '@prisma-next/mongo/config';
import { createMongoControlClient } from '@prisma-next/mongo/control';
import mongo from '@prisma-next/mongo/runtime';
import { acc } from '@prisma-next/mongo-query-builder';
import { MongoClient, ObjectId } from 'mongodb';
import { take, watch } from './streams.js';

const SCHEMA = `
model User {
  id    ObjectId  @id @map("_id")
  email String    @unique
  name  String?
  born  DateTime?
  posts Post[]

  @@map("users")
}

model Post {
  id       ObjectId @id @map("_id")
  title    String
  stars    Int
  tags     String[]
  authorId ObjectId
  author   User     @relation(fields: [authorId], references: [id])

  @@index([authorId, stars])
  @@map("posts")
}`;

const dbName = 'node_prisma';
const mongoClient = new MongoClient(process.env.DIWAN_URI);
const raw = mongoClient.db(dbName);
const connection = new URL(process.env.DIWAN_URI);
connection.pathname = `/${dbName}`;
const control = createMongoControlClient({ connection: connection.href });
let directory;
let db;

/** What `prisma-next contract emit` makes of a schema. */
async function emit(schema) {
  const contract = join(directory, 'contract.prisma');
  await writeFile(contract, schema);
  const { value } = await control.emit({ contractConfig: defineConfig({ contract }).contract });
  return JSON.parse(value.contractJson);
}

/** Runs `dbInit` or `dbUpdate` and returns the names of the operations. */
async function apply(action, contract) {
  const { value } = await control[action]({ contract, mode: 'apply', migrationsDir: join(directory, 'migrations') });
  assert.equal(value.execution.operationsExecuted, value.plan.operations.length);
  return value.plan.operations.map((operation) => operation.id);
}

const posts = (author, ...stars) =>
  stars.map((n) => ({ title: `${author.email} ${n}`, stars: n, tags: ['new'], authorId: author._id }));

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'prisma-'));
  await raw.dropDatabase();
  const contractJson = await emit(SCHEMA);
  const operations = await apply('dbInit', contractJson);
  assert.deepEqual(operations, [
    'collection.posts.create',
    'collection.users.create',
    'index.posts.create(authorId:1,stars:1)',
    'index.users.create(email:1)',
  ]);
  assert.deepEqual(await apply('dbInit', contractJson), []);
  db = mongo({ mongoClient, dbName, contractJson });
});
after(async () => {
  await db.close();
  await control.close();
  await raw.dropDatabase();
  await mongoClient.close();
  await rm(directory, { recursive: true });
});

test('the ORM creates, finds, updates and deletes', async () => {
  const { users, posts: articles } = db.orm;
  const ann = await users.create({ email: 'ann', name: 'Ann', born: new Date(0) });
  assert.ok(ann._id instanceof ObjectId);
  const id = ann._id.toHexString();
  assert.deepEqual(await users.where({ email: 'ann' }).first(), { _id: id, email: 'ann', name: 'Ann', born: new Date(0) });
  assert.equal((await users.where({ _id: id }).first()).name, 'Ann');
  assert.equal((await articles.createAll(posts(ann, 1, 2, 3))).length, 3);
  assert.equal(await articles.createCount(posts(ann, 4)), 1);
  const page = await articles.where({ authorId: id }).orderBy({ stars: -1 }).skip(1).take(2).select('title').all();
  assert.deepEqual(page, [{ title: 'ann 3' }, { title: 'ann 2' }]);
  const updated = await articles.where({ title: 'ann 1' }).update((post) => [post.stars.inc(9), post.tags.push('good')]);
  assert.deepEqual([updated.stars, updated.tags], [10, ['new', 'good']]);
  const all = await articles.where({ authorId: id }).updateAll({ tags: [] });
  assert.deepEqual(all.map((post) => post.tags), [[], [], [], []]);
  const upsert = (name) => users.where({ email: 'bob' }).upsert({ create: { email: 'bob' }, update: { name } });
  const [first, second] = [await upsert('Bo'), await upsert('Bob')];
  assert.ok(first._id.equals(second._id));
  assert.deepEqual([first.name, second.name], ['Bo', 'Bob']);
  assert.equal((await articles.where({ title: 'ann 1' }).delete()).stars, 10);
  assert.equal(await articles.where({ authorId: id }).deleteCount(), 3);
  assert.equal(await articles.where({ authorId: id }).first(), null);
});

test('relations are included from both sides', async () => {
  const eve = await db.orm.users.create({ email: 'eve' });
  await db.orm.posts.createCount(posts(eve, 1, 2));
  const post = await db.orm.posts.where({ title: 'eve 2' }).include('author').first();
  assert.equal(post.author.email, 'eve');
  const user = await db.orm.users.where({ email: 'eve' }).include('posts').first();
  assert.deepEqual(user.posts.map((each) => each.title).sort(), ['eve 1', 'eve 2']);
});

test('the unique index and the validators of the contract hold', async () => {
  const ida = await db.orm.users.create({ email: 'ida' });
  await assert.rejects(db.orm.users.create({ email: 'ida' }), { code: 11000 });
  const post = { title: 'a', stars: 1, tags: [], authorId: ida._id };
  for (const wrong of [{ title: undefined }, { stars: 0.5 }, { tags: [1] }]) {
    await assert.rejects(db.orm.posts.create({ ...post, ...wrong }), { code: 121 });
  }
  assert.ok(await db.orm.posts.create(post));
});

test('typed aggregations group and join', async () => {
  const [kim, lee] = await db.orm.users.createAll([{ email: 'kim' }, { email: 'lee' }]);
  await db.orm.posts.createCount([...posts(kim, 2, 4), ...posts(lee, 1, 5, 9)]);
  const plan = db.query
    .from('posts')
    .match((f) => f.stars.gt(1))
    .lookup((from) => from('users').on((local, foreign) => ({ local: local.authorId, foreign: foreign._id })).as('author'))
    .unwind('author')
    .match((f) => f.rawPath('author.email').in(['kim', 'lee']))
    .group((f) => ({ _id: f.rawPath('author.email'), posts: acc.count(), stars: acc.sum(f.stars), best: acc.max(f.stars) }))
    .sort({ stars: -1 })
    .build();
  const rows = await db.execute(plan);
  assert.deepEqual(
    rows.map((row) => [row._id, row.posts, row.stars, row.best]),
    [['lee', 2, 14, 9], ['kim', 2, 6, 4]],
  );
});

test('a transaction of the shared client is visible to the ORM when it is committed', async () => {
  const max = await db.orm.users.create({ email: 'max' });
  const [post] = await db.orm.posts.createAll(posts(max, 1));
  const titles = async () => {
    const rows = await db.orm.posts.where({ authorId: max._id }).orderBy({ stars: 1 }).all();
    return rows.map((row) => row.title);
  };
  const seen = [];
  await mongoClient.withSession((session) =>
    session.withTransaction(async () => {
      await raw.collection('posts').insertMany(posts(max, 2, 3), { session });
      await raw.collection('posts').deleteOne({ _id: post._id }, { session });
      await raw.collection('users').updateOne({ _id: max._id }, { $set: { name: 'Max' } }, { session });
      seen.push(await titles(), (await db.orm.users.where({ email: 'max' }).first()).name);
    }),
  );
  assert.deepEqual(seen, [['max 1'], undefined]);
  assert.deepEqual(await titles(), ['max 2', 'max 3']);
  assert.equal((await db.orm.users.where({ email: 'max' }).first()).name, 'Max');
});

test('a transaction that fails leaves nothing that the ORM sees', async () => {
  const present = await db.orm.users.orderBy({ email: 1 }).all();
  const failing = (statement) =>
    mongoClient.withSession((session) =>
      session.withTransaction(async () => {
        await raw.collection('users').insertOne({ email: 'nobody' }, { session });
        await raw.collection('posts').insertMany(posts({ _id: new ObjectId(), email: 'nobody' }, 1), { session });
        await statement(session);
      }),
    );
  const adding = (name, document) => failing((session) => raw.collection(name).insertOne(document, { session }));
  await assert.rejects(adding('users', { email: present[0].email }), { code: 11000 });
  await assert.rejects(adding('posts', { title: 'invalid' }), { code: 121 });
  await assert.rejects(failing(() => Promise.reject(new Error('changed my mind'))), /changed my mind/);
  assert.deepEqual(await db.orm.users.orderBy({ email: 1 }).all(), present);
  assert.equal(await db.orm.posts.where({ title: 'nobody 1' }).first(), null);
});

test('a change stream of the shared client shows what the ORM writes', async (t) => {
  const stream = await watch(raw, [], { fullDocument: 'updateLookup' });
  t.after(() => stream.close());
  const pia = await db.orm.users.create({ email: 'pia' });
  await db.orm.posts.createCount(posts(pia, 1, 2));
  await db.orm.users.where({ email: 'pia' }).update({ name: 'Pia' });
  await db.orm.posts.where({ authorId: pia._id }).updateCount((post) => [post.stars.mul(10)]);
  await db.orm.posts.where({ title: 'pia 1' }).delete();
  await db.orm.posts.where({ title: 'pia 2' }).deleteCount();
  const events = await take(stream, 8);
  assert.deepEqual(
    events.map((event) => `${event.operationType} ${event.ns.coll}`),
    ['insert users', 'insert posts', 'insert posts', 'update users', 'update posts', 'update posts', 'delete posts', 'delete posts'],
  );
  assert.deepEqual(events[3].updateDescription.updatedFields, { name: 'Pia' });
  assert.deepEqual(events[3].fullDocument, { _id: pia._id, email: 'pia', name: 'Pia' });
  assert.deepEqual(events.slice(4, 6).map((event) => event.updateDescription.updatedFields.stars).sort(), [10, 20]);
});

test('a changed contract migrates the database', async () => {
  const changed = await emit(SCHEMA.replace('title    String', 'title String @unique\n pinned Boolean?'));
  assert.deepEqual(await apply('dbUpdate', changed), ['index.posts.create(title:1)', 'validator.posts.update']);
  assert.deepEqual(await apply('dbUpdate', changed), []);
  assert.ok((await control.schemaVerify({ contract: changed, strict: true })).ok);
  const next = mongo({ mongoClient, dbName, contractJson: changed });
  const zoe = await next.orm.users.create({ email: 'zoe' });
  await next.orm.posts.create({ ...posts(zoe, 1)[0], pinned: true });
  assert.equal((await next.orm.posts.where({ pinned: true }).first()).title, 'zoe 1');
  await assert.rejects(next.orm.posts.create(posts(zoe, 1)[0]), { code: 11000 });
});
