// The Node.js driver: documents, cursors, indexes, bulk writes, sessions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Binary, Decimal128, GridFSBucket, Long, MongoClient, MongoServerError, ObjectId } from 'mongodb';

const client = new MongoClient(process.env.DIWAN_URI);
const db = client.db('node_driver');
before(() => db.dropDatabase());
after(async () => {
  await db.dropDatabase();
  await client.close();
});

test('every BSON type round-trips', async () => {
  const document = {
    _id: new ObjectId(), text: 'ďiván', number: 1.5, whole: 7, long: Long.fromString('9007199254740993'),
    decimal: Decimal128.fromString('1.10'), date: new Date(0), nothing: null, list: [1, ['a']], data: new Binary(Buffer.from('x')),
  };
  const plain = db.collection('types', { promoteLongs: false });
  await plain.insertOne(document);
  const found = await plain.findOne({ _id: document._id });
  assert.equal(found.long.toString(), '9007199254740993');
  assert.equal(found.decimal.toString(), '1.10');
  assert.deepEqual(found.list, [1, ['a']]);
  assert.equal(found.date.getTime(), 0);
});

test('updates and deletes report their counts', async () => {
  const people = db.collection('people');
  const inserted = await people.insertMany([{ _id: 1, age: 3 }, { _id: 2, age: 30 }, { _id: 3, age: 60 }]);
  assert.equal(inserted.insertedCount, 3);
  const updated = await people.updateMany({ age: { $gt: 10 } }, { $inc: { age: 1 }, $set: { adult: true } });
  assert.deepEqual([updated.matchedCount, updated.modifiedCount], [2, 2]);
  const changed = await people.findOneAndUpdate({ _id: 1 }, { $push: { log: 'x' } }, { returnDocument: 'after' });
  assert.deepEqual(changed, { _id: 1, age: 3, log: ['x'] });
  const result = await people.bulkWrite([
    { insertOne: { document: { _id: 4 } } },
    { updateOne: { filter: { _id: 5 }, update: { $set: { age: 1 } }, upsert: true } },
    { deleteOne: { filter: { _id: 3 } } },
  ]);
  assert.deepEqual([result.insertedCount, result.upsertedCount, result.deletedCount], [1, 1, 1]);
  assert.equal(await people.countDocuments({}), 4);
  assert.deepEqual((await people.distinct('age')).sort((a, b) => a - b), [1, 3, 31]);
});

test('a cursor streams many batches', async () => {
  const many = db.collection('many');
  await many.insertMany(Array.from({ length: 5000 }, (_, i) => ({ _id: i, k: i % 3 })));
  let sum = 0;
  for await (const document of many.find({ k: 1 }).batchSize(50).sort({ _id: -1 })) sum += document._id;
  assert.equal(sum, Array.from({ length: 5000 }, (_, i) => i).filter((i) => i % 3 === 1).reduce((a, b) => a + b));
  const groups = await many.aggregate([{ $group: { _id: '$k', n: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray();
  assert.deepEqual(groups.map((g) => g.n), [1667, 1667, 1666]);
});

test('errors have a code and the duplicate key', async () => {
  const unique = db.collection('unique');
  await unique.createIndex({ email: 1 }, { unique: true });
  await unique.insertOne({ email: 'a@b' });
  await assert.rejects(unique.insertOne({ email: 'a@b' }), (error) => {
    assert.ok(error instanceof MongoServerError);
    assert.equal(error.code, 11000);
    assert.deepEqual(error.keyPattern, { email: 1 });
    assert.deepEqual(error.keyValue, { email: 'a@b' });
    return true;
  });
  assert.deepEqual((await unique.indexes()).map((index) => index.name), ['_id_', 'email_1']);
});

test('sessions and transactions work', async () => {
  await client.withSession(async (session) => {
    await db.collection('s').insertOne({ _id: 1 }, { session });
    assert.equal((await db.collection('s').findOne({}, { session }))._id, 1);
  });
  await client.withSession((session) =>
    session.withTransaction(async () => {
      await db.collection('s').insertOne({ _id: 2 }, { session });
      await db.collection('t').updateOne({ _id: 1 }, { $inc: { n: 1 } }, { upsert: true, session });
      assert.equal(await db.collection('s').countDocuments({}, { session }), 2);
      assert.equal(await db.collection('s').countDocuments({}), 1);
    }),
  );
  assert.equal(await db.collection('s').countDocuments({}), 2);
  await assert.rejects(
    client.withSession((session) =>
      session.withTransaction(async () => {
        await db.collection('s').insertOne({ _id: 3 }, { session });
        await db.collection('s').insertOne({ _id: 1 }, { session });
      }),
    ),
    (error) => error.code === 11000,
  );
  assert.deepEqual(await db.collection('s').distinct('_id'), [1, 2]);
});

test('GridFS stores and returns files', async () => {
  const bucket = new GridFSBucket(db, { chunkSizeBytes: 1000 });
  const content = Buffer.alloc(10_500, 7);
  const upload = bucket.openUploadStream('file');
  await new Promise((resolve, reject) => upload.on('finish', resolve).on('error', reject).end(content));
  const parts = [];
  for await (const part of bucket.openDownloadStream(upload.id)) parts.push(part);
  assert.deepEqual(Buffer.concat(parts), content);
});

test('compressed messages round-trip', async (context) => {
  const compressed = new MongoClient(process.env.DIWAN_URI, { compressors: ['zlib'] });
  context.after(() => compressed.close());
  const text = 'text '.repeat(2000);
  await compressed.db('node_driver').collection('z').insertOne({ text });
  assert.equal((await compressed.db('node_driver').collection('z').findOne({ text })).text, text);
});

test('the driver monitors the server with streamed hellos', async () => {
  const options = { serverMonitoringMode: 'stream', heartbeatFrequencyMS: 500 };
  const watching = new MongoClient(process.env.DIWAN_URI, options);
  const awaited = new Promise((resolve, reject) => {
    let count = 0;
    watching.on('serverHeartbeatSucceeded', (event) => {
      if (event.awaited && (count += 1) === 3) resolve(event.reply);
    });
    watching.on('serverHeartbeatFailed', (event) => reject(event.failure));
  });
  await watching.connect();
  const reply = await awaited;
  assert.equal(Number(reply.topologyVersion.counter), 0);
  await watching.close();
});
