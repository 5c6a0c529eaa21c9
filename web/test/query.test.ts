// What the query page makes of texts and answers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson, parseShell } from '../src/json/parse.ts';
import { analyse, frequentValues, histogram } from '../src/pages/query/analysis.ts';
import { codeFor } from '../src/pages/query/copy-as.ts';
import { literal } from '../src/pages/query/literals.ts';
import { planOfExplain, planOfSelector } from '../src/pages/query/plan.ts';
import { indexName, proposeIndex, shownKeys } from '../src/pages/query/propose.ts';
import { emptyQuery, parseQuery, QueryProblem } from '../src/pages/query/request.ts';

const filter = (text: string, sort = '') => parseQuery({ ...emptyQuery('filter'), text, sort });

const explained = (stage: object, docsExamined: number, nReturned: number) =>
  planOfExplain(parseJson(JSON.stringify({ queryPlanner: {}, executionStats: { nReturned, executionTimeMillis: 3, totalKeysExamined: 0, totalDocsExamined: docsExamined, executionStages: stage } })))!;

const scan = (docsExamined: number, nReturned: number) => explained({ stage: 'COLLSCAN', nReturned, docsExamined }, docsExamined, nReturned);

test('parts of a query that cannot be read are named with their place', () => {
  const problem = (work: () => unknown) => {
    try {
      work();
    } catch (error) {
      if (error instanceof QueryProblem) return [error.part, error.offset !== undefined];
    }
    return undefined;
  };
  assert.deepEqual(problem(() => filter('{ a: ')), ['filter', true]);
  assert.deepEqual(problem(() => filter('[]')), ['filter', false]);
  assert.deepEqual(problem(() => filter('{}', '1')), ['sort', false]);
  assert.deepEqual(problem(() => parseQuery({ ...emptyQuery('filter'), limit: '-1' })), ['limit', false]);
  assert.deepEqual(problem(() => parseQuery({ ...emptyQuery('pipeline'), text: '[{ $match: {}, $limit: 1 }]' })), ['pipeline', false]);
  assert.deepEqual(problem(() => parseQuery({ ...emptyQuery('view'), text: ' ' })), ['view', false]);
});

test('an index has equal fields first, then the order, then ranges', () => {
  const query = filter('{ year: { $gt: 1960 }, maker: "Fiat", "engine.kind": { $in: [1, 2] }, $or: [{ x: 1 }] }', '{ price: -1 }');
  const keys = proposeIndex(query, scan(10_000, 3))!;
  assert.equal(indexName(keys), 'maker_1_price_-1_year_1_engine.kind_1');
  assert.equal(shownKeys(keys), '{ maker: 1, price: -1, year: 1, "engine.kind": 1 }');
});

test('no index is proposed where it would not help', () => {
  assert.equal(proposeIndex(filter('{ a: 1 }'), scan(50, 0)), undefined, 'few documents');
  assert.equal(proposeIndex(filter('{ a: 1 }'), scan(10_000, 5000)), undefined, 'most documents match');
  assert.equal(proposeIndex(filter('{}', '{ a: 1 }'), scan(10_000, 1)), undefined, 'no condition');
  assert.equal(proposeIndex(filter('{ a: { $ne: 1 } }'), scan(10_000, 1)), undefined, 'a negation');
  const grouped = parseQuery({ ...emptyQuery('pipeline'), text: '[{ $group: { _id: "$a" } }]' });
  assert.equal(proposeIndex(grouped, scan(10_000, 10_000)), undefined, 'all documents are needed');
});

test('plans of pipelines have the stages after the cursor on top', () => {
  const answer = { stages: [{ $cursor: { queryPlanner: {}, executionStats: { totalDocsExamined: 7, executionStages: { stage: 'FETCH', inputStage: { stage: 'IXSCAN', indexName: 'a_1' } } } } }, { $group: { _id: 1 } }] };
  const plan = planOfExplain(parseJson(JSON.stringify(answer)))!;
  assert.equal(plan.root.name, '$group');
  assert.equal(plan.root.inputs[0]!.inputs[0]!.index, 'a_1');
  assert.equal(plan.docsExamined, 7);
  const mango = planOfSelector(parseJson('{"winning_plan":{"stage":"LIMIT","inputStage":{"stage":"COLLSCAN"}}}'), parseJson('{"execution_stats":{"total_docs_examined":9}}'))!;
  assert.deepEqual([mango.root.inputs[0]!.name, mango.docsExamined], ['COLLSCAN', 9]);
});

test('values become literals of each language', () => {
  const value = parseShell('{ id: ObjectId("0123456789abcdef01234567"), at: ISODate("2020-01-02T03:04:05Z"), n: NumberLong("9007199254740993"), "a b": [true, null, 1.0], r: /x/i }');
  assert.equal(literal(value, 'mongosh').split('\n')[1], '  id: ObjectId("0123456789abcdef01234567"),');
  assert.match(literal(value, 'node'), /new ObjectId\("0123456789abcdef01234567"\)[\s\S]*new Date\("2020-01-02T03:04:05.*"\)[\s\S]*Long\.fromString\("9007199254740993"\)[\s\S]*"a b": \[true, null, 1\.0\][\s\S]*EJSON\.parse/);
  assert.match(literal(value, 'python'), /datetime\.fromisoformat\([\s\S]*Int64\(9007199254740993\)[\s\S]*\[True, None, 1\.0\][\s\S]*json_util\.loads/);
});

test('code quotes names and texts that contain quotation marks', () => {
  const addresses = { mongodb: 'mongodb://127.0.0.1:27017/', http: 'http://127.0.0.1:5984' };
  const query = filter(`{ name: "it's \\"x\\"" }`);
  assert.equal(codeFor('mongosh', 'shop/o"r', query, addresses), `db.getSiblingDB("shop").getCollection("o\\"r").find({ name: "it's \\"x\\"" })`);
  assert.match(codeFor('curl', 'cars', query, addresses), /it'\\''s/);
  assert.match(codeFor('curl', 'a/b', parseQuery({ ...emptyQuery('selector') }), addresses), /\/a%2Fb\/_find/);
});

test('fields are counted with their types, values and numbers', () => {
  const docs = [{ a: 1, b: { c: 'x' } }, { a: 2.5, b: { c: 'x' }, list: [{ d: 1 }, { d: 2 }] }, { a: 'n' }].map((doc) => parseJson(JSON.stringify(doc)));
  const fields = analyse(docs);
  assert.deepEqual(fields.map(({ path, count }) => [path, count]), [['a', 3], ['b', 2], ['b.c', 2], ['list', 1], ['list.d', 1]]);
  assert.deepEqual([...fields[0]!.types], [['int', 1], ['double', 1], ['string', 1]]);
  assert.deepEqual(frequentValues(fields[2]!, 5), [['x', 2]]);
  assert.deepEqual(histogram(fields[0]!, 2).map(({ count }) => count), [1, 1]);
  assert.deepEqual(histogram(fields[2]!, 2), []);
});
