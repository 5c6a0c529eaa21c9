// mongoose: schemas, validation, population, versions, middleware, queries.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import mongoose from 'mongoose';

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
