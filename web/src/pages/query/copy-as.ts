// Queries as code for the shell and the drivers.

import { fromPlain, array, object, type Entry, type Node } from '../../json/node.ts';
import { pretty } from '../../json/print.ts';
import { namespace } from '../../api/names.ts';
import { path } from '../../api/http.ts';
import { literal, quoted, usedTypes, type Language } from './literals.ts';
import type { Parsed } from './request.ts';
import { commandOf } from './results.ts';

/** Where programs reach the server. */
export interface Addresses {
  /** `mongodb://host:port/`. */
  readonly mongodb: string;
  /** `http://host:port`. */
  readonly http: string;
}

export type Target = 'mongosh' | 'Python' | 'Node' | 'curl';

/** The languages in which a query can be written. */
export function targetsOf(query: Parsed): readonly Target[] {
  return query.kind === 'view' ? ['curl'] : query.kind === 'selector' ? ['Node', 'Python', 'curl'] : ['mongosh', 'Python', 'Node', 'curl'];
}

/** The query as a program. */
export function codeFor(target: Target, db: string, query: Parsed, addresses: Addresses): string {
  if (target === 'curl') return curl(db, query, addresses.http);
  switch (query.kind) {
    case 'selector':
      return target === 'Python' ? selectorInPython(db, query.body, addresses.http) : selectorInNode(db, query.body, addresses.http);
    case 'view':
      return curl(db, query, addresses.http);
    default:
      return target === 'Python' ? python(db, query, addresses) : target === 'Node' ? node(db, query, addresses) : shell(db, query);
  }
}

type MongoQuery = Extract<Parsed, { kind: 'filter' | 'pipeline' }>;

/** The calls after the collection, in JavaScript. */
function calls(query: MongoQuery, language: Language): string {
  if (query.kind === 'pipeline') return `.aggregate(${literal(array(query.stages), language)})`;
  const { filter, projection, sort, skip, limit } = query;
  const given = projection && (language === 'node' ? `{ projection: ${literal(projection, language)} }` : literal(projection, language));
  let code = `.find(${literal(filter, language)}${given ? `, ${given}` : ''})`;
  if (sort) code += `.sort(${literal(sort, language)})`;
  if (skip) code += `.skip(${skip})`;
  if (limit) code += `.limit(${limit})`;
  return code;
}

function shell(db: string, query: MongoQuery): string {
  const { database, collection } = namespace(db);
  return `db.getSiblingDB(${quoted(database, 'mongosh')}).getCollection(${quoted(collection, 'mongosh')})${calls(query, 'mongosh')}`;
}

function node(db: string, query: MongoQuery, { mongodb }: Addresses): string {
  const { database, collection } = namespace(db);
  const code = calls(query, 'node');
  const types = usedTypes(code, ['Decimal128', 'Long', 'ObjectId']);
    return [
    `import { ${['MongoClient', ...types].join(', ')} } from "mongodb";`,
    ...(code.includes('EJSON.') ? ['import { EJSON } from "bson";'] : []),
    '',
    `const client = new MongoClient(${quoted(mongodb, 'node')});`,
    `const collection = client.db(${quoted(database, 'node')}).collection(${quoted(collection, 'node')});`,
    `for await (const doc of collection${code}) console.log(doc);`,
    'await client.close();',
  ].join('\n');
}

function python(db: string, query: MongoQuery, { mongodb }: Addresses): string {
  const { database, collection } = namespace(db);
  let call: string;
  if (query.kind === 'pipeline') call = `.aggregate(${literal(array(query.stages), 'python')})`;
  else {
    const { filter, projection, sort, skip, limit } = query;
    const parts = [literal(filter, 'python'), projection && literal(projection, 'python')].filter((part) => part !== undefined);
    if (sort) parts.push(`sort=${literal(sort, 'python')}`);
    if (skip) parts.push(`skip=${skip}`);
    if (limit) parts.push(`limit=${limit}`);
    call = `.find(${parts.join(', ')})`;
  }
  const bson = [
    ...(call.includes('json_util.') ? ['from bson import json_util'] : []),
    ...(call.includes('Decimal128(') ? ['from bson.decimal128 import Decimal128'] : []),
    ...(call.includes('Int64(') ? ['from bson.int64 import Int64'] : []),
    ...(call.includes('ObjectId(') ? ['from bson.objectid import ObjectId'] : []),
  ];
  return [
    ...(call.includes('datetime.') ? ['from datetime import datetime', ''] : []),
    ...bson,
    'from pymongo import MongoClient',
    '',
    `client = MongoClient(${quoted(mongodb, 'python')})`,
    `for doc in client[${quoted(database, 'python')}][${quoted(collection, 'python')}]${call}:`,
    '    print(doc)',
  ].join('\n');
}

function selectorInPython(db: string, body: Node, http: string): string {
  return ['import requests', '', `answer = requests.post(${quoted(http + path(db, '_find'), 'python')}, json=${literal(body, 'python')})`, 'for doc in answer.json()["docs"]:', '    print(doc)'].join('\n');
}

function selectorInNode(db: string, body: Node, http: string): string {
  return ['import nano from "nano";', '', `const { docs } = await nano(${quoted(http, 'node')}).use(${quoted(db, 'node')}).find(${pretty(body)});`, 'for (const doc of docs) console.log(doc);'].join('\n');
}

function curl(db: string, query: Parsed, http: string): string {
  const [address, body] = curlRequest(db, query);
  return [`curl ${singleQuoted(http + address)} -H 'content-type: application/json' \\`, `  -d ${singleQuoted(pretty(body))}`].join('\n');
}

function curlRequest(db: string, query: Parsed): [address: string, body: Node] {
  if (query.kind === 'selector') return [path(db, '_find'), query.body];
  if (query.kind === 'view') return [`${path(db, '_temp_view')}?${query.reduce === undefined ? 'reduce=false' : 'group=true'}`, fromPlain({ map: query.map, reduce: query.reduce })];
  const [database, command] = commandOf(db, query);
  const entries = command.filter(([, value]) => value !== undefined).map(([name, value]): Entry => [name, typeof value === 'object' ? (value as Node) : fromPlain(value)]);
  return [path('_diwan', 'command', database), object(entries)];
}

function singleQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
