// Trees of revisions, and functions of design documents.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson } from '../src/json/parse.ts';
import { compact } from '../src/json/print.ts';
import type { ObjectNode } from '../src/json/node.ts';
import { functionsOf, keyOf, offsetOf, withoutFunction, withSource } from '../src/pages/design/functions.ts';
import { problemsOf } from '../src/pages/design/trial.ts';
import { commonAncestor, inOrder, layout, type Branch } from '../src/pages/revisions/tree.ts';

const branch = (digits: string, deleted = false): Branch => ({ rev: `${digits.length}-${digits[0]}`, deleted, path: [...digits].map((digit, index) => `${digits.length - index}-${digit}`) });

test('the winner is not deleted, the longest, and the highest', () => {
  const order = (...branches: Branch[]) => inOrder(branches).map(({ rev }) => rev);
  assert.deepEqual(order(branch('ba'), branch('ca')), ['2-c', '2-b']);
  assert.deepEqual(order(branch('ca'), branch('xba')), ['3-x', '2-c']);
  assert.deepEqual(order(branch('xba', true), branch('ca')), ['2-c', '3-x']);
});

test('each branch has a line, and common ancestors are drawn once', () => {
  const nodes = layout([branch('ba'), branch('dca')]);
  assert.deepEqual(
    nodes.map(({ rev, column, line, from }) => [rev, column, line, from]),
    [['1-a', 0, 0, undefined], ['2-c', 1, 0, '1-a'], ['2-b', 1, 1, '1-a'], ['3-d', 2, 0, '2-c']],
  );
  assert.equal(commonAncestor([branch('ba'), branch('dca')], '3-d', '2-b'), '1-a');
  assert.equal(commonAncestor([branch('b'), branch('c')], '1-b', '1-c'), undefined);
});

test('long runs without a fork are left out, and said', () => {
  const nodes = layout([branch('zyxwvutsrqponmlkjihg')]);
  assert.equal(nodes.length, 4);
  assert.deepEqual([nodes[1]!.skipped, nodes[1]!.from], [16, '1-g']);
});

test('functions are found, replaced and removed in their places', () => {
  const body = parseJson('{"language":"javascript","views":{"lib":{"x":"1"},"a":{"map":"m","reduce":"r","keep":1}},"filters":{"f":"g"}}') as ObjectNode;
  assert.deepEqual(functionsOf(body).map(keyOf), ['views/a', 'filters/f']);
  const changed = withSource(body, { group: 'views', name: 'a' }, 'n', '');
  assert.equal(compact(changed), '{"language":"javascript","views":{"lib":{"x":"1"},"a":{"map":"n","keep":1}},"filters":{"f":"g"}}');
  assert.equal(compact(withoutFunction(body, { group: 'filters', name: 'f' })), '{"language":"javascript","views":{"lib":{"x":"1"},"a":{"map":"m","reduce":"r","keep":1}}}');
});

test('a fault is shown from its column to the end of its line', () => {
  const source = 'ab\ncdef\ng';
  assert.equal(offsetOf(source, 2, 3), 5);
  assert.equal(offsetOf(source, 99, 1), source.length);
  assert.deepEqual(problemsOf(source, [{ message: 'm', line: 2, column: 2 }, { message: 'm', line: 2, column: 2 }, undefined]), [{ from: 4, to: 7, message: 'm' }]);
});
