// The exact trees of JSON: what the page reads and writes back must not change a digit.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { diffLines } from '../src/json/diff.ts';
import { idNode, idText } from '../src/json/ids.ts';
import { string } from '../src/json/node.ts';
import { ParseError, parseJson, parseShell } from '../src/json/parse.ts';
import { compact, pretty } from '../src/json/print.ts';

test('a document keeps its order, its digits and the difference of 1 and 1.0', () => {
  const text = '{"b":1,"a":1.0,"10":12345678901234567890,"9":[null,true,"\\u0007"]}';
  assert.equal(compact(parseJson(text)), text);
  assert.equal(compact(parseJson(pretty(parseJson(text)))), text);
});

test('strict JSON refuses what only the shell takes, and says where', () => {
  assert.throws(() => parseJson('{a: 1}'), (error) => error instanceof ParseError && error.offset === 1);
});

test("the shell's notation becomes Extended JSON", () => {
  assert.equal(
    compact(parseShell("{_id: ObjectId('656565656565656565656565'), when: ISODate('2020-01-02T03:04:05Z'), n: NumberLong('9007199254740993'), r: /a+/i,}")),
    '{"_id":{"$oid":"656565656565656565656565"},"when":{"$date":"2020-01-02T03:04:05.000Z"},"n":{"$numberLong":"9007199254740993"},' +
      '"r":{"$regularExpression":{"pattern":"a+","options":"i"}}}',
  );
});

test('deep nesting is refused instead of exhausting the stack', () => {
  assert.throws(() => parseJson('['.repeat(100_000)), ParseError);
});

for (const value of [
  string('plain'),
  string(''),
  string('_hidden'),
  string('656565656565656565656565'),
  string('~1'),
  parseJson('{"$oid":"656565656565656565656565"}'),
  parseJson('{"a":1,"b":[2]}'),
]) {
  test(`the id ${compact(value)} comes back from its text`, () => {
    assert.equal(idText(idNode(idText(value))), idText(value));
  });
}

test('a string of 24 hexadecimal digits and the ObjectId have different texts', () => {
  assert.notEqual(idText(string('656565656565656565656565')), idText(parseJson('{"$oid":"656565656565656565656565"}')));
});

test('the lines of a diff are the old and the new text', () => {
  const lines = diffLines('a\nb\nc', 'a\nx\nc\nd');
  const text = (kinds: readonly string[]) => lines.filter((line) => kinds.includes(line.kind)).map((line) => line.text);
  assert.deepEqual(text(['same', 'removed']), ['a', 'b', 'c']);
  assert.deepEqual(text(['same', 'added']), ['a', 'x', 'c', 'd']);
});
