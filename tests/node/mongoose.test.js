// mongoose: schemas, validation, population, versions, middleware, queries, transactions, change streams.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import mongoose from 'mongoose';
import { until } from './until.js';

const { Schema } = mongoose;
const author = new Schema({ name: { type: String, required: true, unique: true }, born: Date }, { timestamps: true });
const post = new Schema({
  title: { type: String, index: true },
  author: { type: Schema.Types.ObjectId, ref: 'Author' },
  tags: [String],
  comments: [{ text: String, stars: { type: Number, max: 5 } }],
  meta: Map,
  price: Schema.Types.Decimal128,
});
post.pre('save', function () {
  this.tags.push('saved');
});
const Author = mongoose.model('Author', author);
const Post = mongoose.model('Post', post);

before(async () => {
  await mongoose.connect(process.env.DIWAN_URI, { dbName: 'node_mongoose' });
  await mongoose.connection.dropDatabase();
  await Promise.all([Author.init(), Post.init()]);
});
after(async () => {
  await mongoose.connection.dropDatabase();
  await mongoose.disconnect();
});

test('documents are validated, saved with a version, and populated', async () => {
  await assert.rejects(Author.create({}), { name: 'ValidationError' });
  const hafez = await Author.create({ name: 'Hafez' });
  assert.equal(hafez.__v, 0);
  assert.ok(hafez.createdAt instanceof Date);
  await assert.rejects(Author.create({ name: 'Hafez' }), { code: 11000 });
  await Post.create({ title: 'a', author: hafez, comments: [{ text: 'x', stars: 3 }], meta: { k: 1 }, price: '1.50' });
  const found = await Post.findOne({ title: 'a' }).populate('author');
  assert.equal(found.author.name, 'Hafez');
  assert.deepEqual([...found.tags], ['saved']);
  assert.equal(found.meta.get('k'), 1);
  assert.equal(found.price.toString(), '1.50');
});

test('a version conflict between two writers of one array is detected', async () => {
  const [first, second] = [await Post.findOne(), await Post.findOne()];
  first.comments = [{ text: 'first' }];
  second.comments = [{ text: 'second' }];
  await first.save();
  await assert.rejects(second.save(), { name: 'VersionError' });
  assert.equal((await Post.findOne()).__v, 1);
});

test('queries, updates, aggregation, cursors, lean', async () => {
  await Post.insertMany(Array.from({ length: 30 }, (_, i) => ({ title: `t${i}`, tags: [i % 2 ? 'odd' : 'even'] })));
  assert.equal(await Post.countDocuments({ tags: 'odd' }), 15);
  const page = await Post.find({ title: /^t1/ }).sort('-title').skip(1).limit(2).select('title -_id').lean();
  assert.deepEqual(page, [{ title: 't18' }, { title: 't17' }]);
  const updated = await Post.findOneAndUpdate({ title: 't3' }, { $addToSet: { tags: 'new' } }, { returnDocument: 'after' });
  assert.deepEqual([...updated.tags], ['odd', 'new']);
  const counts = await Post.aggregate().unwind('tags').group({ _id: '$tags', n: { $sum: 1 } }).sort('_id');
  assert.deepEqual(counts.find((row) => row._id === 'even').n, 15);
  let seen = 0;
  for await (const _ of Post.find().cursor({ batchSize: 7 })) seen += 1;
  assert.equal(seen, 31);
  assert.equal((await Post.deleteMany({ tags: 'even' })).deletedCount, 15);
  assert.equal((await Post.bulkWrite([{ updateMany: { filter: {}, update: { $set: { title: 'same' } } } }])).modifiedCount, 16);
  assert.equal(await Post.exists({ title: 'none' }), null);
});

test('indexes are created from the schemas', async () => {
  assert.deepEqual(await Post.syncIndexes(), []);
  const names = (await Author.listIndexes()).map((index) => index.name);
  assert.deepEqual(names.sort(), ['_id_', 'name_1']);
});

test('a transaction writes two models', async () => {
  const author = new Author({ name: 'Saadi' });
  await mongoose.connection.transaction(async (session) => {
    await author.save({ session });
    await Post.create([{ title: 'Bustan', author }, { title: 'Gulistan', author }], { session, ordered: true });
    await Author.updateOne({ name: 'Hafez' }, { $set: { born: new Date(0) } }).session(session);
    assert.equal(await Post.countDocuments({ author }).session(session), 2);
    assert.equal(await Post.countDocuments({ author }), 0);
    const own = await Post.findOne({ title: 'Bustan' }).session(session).populate('author');
    assert.equal(own.author.name, 'Saadi');
  });
  assert.equal(author.isNew, false);
  assert.deepEqual(await Post.distinct('title', { author }), ['Bustan', 'Gulistan']);
  assert.equal((await Author.findOne({ name: 'Hafez' })).born.getTime(), 0);
});

test('a transaction that fails resets its documents, which can be saved again', async () => {
  const added = new Author({ name: 'Rumi' });
  const changed = await Post.findOne({ title: 'Bustan' });
  changed.tags.push('garden');
  const attempt = (last) =>
    mongoose.connection.transaction(async (session) => {
      await added.save({ session });
      await changed.save({ session });
      await last(session);
    });
  await assert.rejects(attempt(() => Promise.reject(new Error('changed my mind'))), /changed my mind/);
  await assert.rejects(attempt((session) => Author.create([{ name: 'Hafez' }], { session })), { code: 11000 });
  assert.deepEqual([added.isNew, changed.isModified('tags')], [true, true]);
  assert.equal(await Author.exists({ name: 'Rumi' }), null);
  assert.ok(!(await Post.findOne({ title: 'Bustan' })).tags.includes('garden'));
  await attempt(() => {});
  assert.deepEqual([added.isNew, changed.isModified('tags')], [false, false]);
  assert.ok(await Author.exists({ name: 'Rumi' }));
  assert.ok((await Post.findOne({ title: 'Bustan' })).tags.includes('garden'));
});

test('withTransaction repeats the function after a conflict', async () => {
  await Author.updateOne({ name: 'Rumi' }, { $set: { born: new Date(0) } });
  const session = await mongoose.startSession();
  let runs = 0;
  await session.withTransaction(async () => {
    const rumi = await Author.findOne({ name: 'Rumi' }).session(session);
    if ((runs += 1) === 1) await Author.updateOne({ name: 'Rumi' }, { $set: { born: new Date(1) } });
    rumi.born = new Date(rumi.born.getTime() + 1);
    await rumi.save();
  });
  await session.endSession();
  assert.equal(runs, 2);
  assert.equal((await Author.findOne({ name: 'Rumi' })).born.getTime(), 2);
});

/** The changes that a model's stream shows, as they come, and the function that closes it. */
async function watch(options) {
  const stream = Author.watch([{ $match: { operationType: { $in: ['insert', 'update'] } } }], options);
  const seen = [];
  stream.on('change', (change) => seen.push(change));
  await once(stream, 'resumeTokenChanged');
  return { seen, close: () => stream.close() };
}

test('watch shows inserts and updates of a model, and resumes behind the last one', async () => {
  const first = await watch({ fullDocument: 'updateLookup', hydrate: true });
  const attar = await Author.create({ name: 'Attar' });
  attar.name = 'Attar of Nishapur';
  await attar.save();
  await until('two changes', () => first.seen.length === 2);
  await first.close();
  const [insert, update] = first.seen;
  assert.deepEqual([insert.operationType, update.operationType], ['insert', 'update']);
  assert.ok(update.fullDocument instanceof Author);
  assert.equal(update.fullDocument.name, 'Attar of Nishapur');
  assert.deepEqual(Object.keys(update.updateDescription.updatedFields).sort(), ['name', 'updatedAt']);

  await Author.updateOne({ _id: attar._id }, { $unset: { born: 1 }, $set: { name: 'Attar again' } });
  await Author.create({ name: 'Jami' });
  const second = await watch({ resumeAfter: update._id });
  await until('the changes meanwhile', () => second.seen.length === 2);
  await second.close();
  assert.deepEqual(second.seen.map((change) => change.operationType), ['update', 'insert']);
  assert.equal(second.seen[0].updateDescription.updatedFields.name, 'Attar again');
  assert.equal(second.seen[0].fullDocument, undefined);
  assert.equal(second.seen[1].fullDocument.name, 'Jami');
});
