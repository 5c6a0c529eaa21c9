// Ids of documents: as values, as MongoDB's commands take them, and as text, as addresses and the member `_id` hold them.

import { array, object, string, type Entry, type Node } from './node.ts';
import { parseJson } from './parse.ts';
import { compact, typeName } from './print.ts';

const OBJECT_ID = /^[0-9a-f]{24}$/;

/** The text of an id. It is exact to the character, because the server reads any other text as a string. */
export function idText(id: Node): string {
  if (id.kind === 'string' && isPlain(id.value)) return id.value;
  const digits = objectId(id);
  return digits !== undefined ? digits : `~${compact(canonical(id))}`;
}

/** The value of an id's text. */
export function idNode(text: string): Node {
  if (OBJECT_ID.test(text)) return object([['$oid', string(text)]]);
  return escaped(text) ?? string(text);
}

/** The digits of an ObjectId. */
export function objectId(node: Node | undefined): string | undefined {
  if (node?.kind !== 'object' || node.entries.length !== 1 || node.entries[0]![0] !== '$oid') return undefined;
  const value = node.entries[0]![1];
  return value.kind === 'string' ? value.value : undefined;
}

/** Whether a string is its own text. */
function isPlain(text: string): boolean {
  if (text === '' || OBJECT_ID.test(text)) return false;
  if (text.startsWith('_')) return text.startsWith('_design/') && text !== '_design/';
  return escaped(text) === undefined;
}

/** The value of a tilde and canonical Extended JSON. */
function escaped(text: string): Node | undefined {
  if (!text.startsWith('~')) return undefined;
  try {
    const id = parseJson(text.slice(1));
    // A string is written in this form only where its own text would mean something else.
    if (id.kind === 'string') return isPlain(id.value) ? undefined : compact(id) === text.slice(1) ? id : undefined;
    return idText(id) === text ? id : undefined;
  } catch {
    return undefined;
  }
}

/** A value in canonical Extended JSON, where every number and date shows its type. */
export function canonical(node: Node): Node {
  switch (node.kind) {
    case 'number':
      return canonicalNumber(node.text);
    case 'array':
      return array(node.items.map(canonical));
    case 'object': {
      const date = node.entries.length === 1 && node.entries[0]![0] === '$date' ? node.entries[0]![1] : undefined;
      if (date?.kind === 'string') {
        const millis = Date.parse(date.value);
        return Number.isNaN(millis) ? node : object([['$date', object([['$numberLong', string(String(millis))]])]]);
      }
      if (typeName(node) !== 'object') return node;
      return object(node.entries.map(([name, value]): Entry => [name, canonical(value)]));
    }
    default:
      return node;
  }
}

function canonicalNumber(text: string): Node {
  if (/[.eE]/.test(text)) {
    const value = Number(text);
    return object([['$numberDouble', string(Number.isInteger(value) && Math.abs(value) < 1e16 ? value.toFixed(1) : String(value))]]);
  }
  const isInt = Math.abs(Number(text)) < 2 ** 31 || text === String(-(2 ** 31));
  return object([[isInt ? '$numberInt' : '$numberLong', string(text)]]);
}

/** A reference to a document by MongoDB's convention, `{ $ref, $id, $db }`. */
export interface Reference {
  readonly collection: string;
  readonly id: Node;
  readonly database: string | undefined;
}

/** The reference that a value is. */
export function reference(node: Node): Reference | undefined {
  if (node.kind !== 'object') return undefined;
  const part = (name: string) => node.entries.find(([key]) => key === name)?.[1];
  const [collection, id, database] = [part('$ref'), part('$id'), part('$db')];
  if (collection?.kind !== 'string' || !id) return undefined;
  return { collection: collection.value, id, database: database?.kind === 'string' ? database.value : undefined };
}

