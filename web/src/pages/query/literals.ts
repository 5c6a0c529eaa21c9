// Writes values as literals of programming languages.

import { compact, specialText, typeName } from '../../json/print.ts';
import type { Node } from '../../json/node.ts';

export type Language = 'mongosh' | 'node' | 'python';

/** A value as code. Types without a literal are read from Extended JSON. */
export function literal(node: Node, language: Language, indent = ''): string {
  switch (node.kind) {
    case 'null':
      return language === 'python' ? 'None' : 'null';
    case 'boolean':
      return language === 'python' ? (node.value ? 'True' : 'False') : String(node.value);
    case 'number':
      return node.text;
    case 'string':
      return quoted(node.value, language);
    case 'array':
      return list('[', ']', node.items.map((item) => literal(item, language, `${indent}  `)), indent);
    case 'object':
      if (typeName(node) !== 'object') return special(node, language);
      return list('{', '}', node.entries.map(([name, value]) => `${key(name, language)}: ${literal(value, language, `${indent}  `)}`), indent);
  }
}

const LINE = 90;

function list(open: string, close: string, parts: readonly string[], indent: string): string {
  if (parts.length === 0) return open + close;
  const space = open === '{' ? ' ' : '';
  const line = `${open}${space}${parts.join(', ')}${space}${close}`;
  if (line.length + indent.length <= LINE && !line.includes('\n')) return line;
  return `${open}\n${parts.map((part) => `${indent}  ${part}`).join(',\n')}\n${indent}${close}`;
}

function key(name: string, language: Language): string {
  const isPlain = language !== 'python' && /^[A-Za-z_$][\w$]*$/.test(name) && name !== '__proto__';
  return isPlain ? name : quoted(name, language);
}

/** A string between double quotation marks. JSON's escapes mean the same in all of the languages. */
export function quoted(text: string, language: Language): string {
  const json = JSON.stringify(text);
  // JSON leaves these as they are; older JavaScript ends a line at them.
  return language === 'python' ? json : json.replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');
}

function special(node: Node, language: Language): string {
  const text = specialText(node) ?? '';
  const type = typeName(node);
  if (type === 'objectId') return `${language === 'node' ? 'new ' : ''}ObjectId(${quoted(text, language)})`;
  if (type === 'date' && /^[0-9]{4}-/.test(text)) {
    if (language === 'mongosh') return `ISODate(${quoted(text, language)})`;
    if (language === 'node') return `new Date(${quoted(text, language)})`;
    return `datetime.fromisoformat(${quoted(text.replace('Z', '+00:00'), language)})`;
  }
  if (type === 'long') return language === 'mongosh' ? `NumberLong(${quoted(text, language)})` : language === 'node' ? `Long.fromString(${quoted(text, language)})` : `Int64(${text})`;
  if (type === 'decimal') return language === 'mongosh' ? `NumberDecimal(${quoted(text, language)})` : language === 'node' ? `new Decimal128(${quoted(text, language)})` : `Decimal128(${quoted(text, language)})`;
  return language === 'python' ? `json_util.loads(${quoted(compact(node), language)})` : `EJSON.parse(${quoted(compact(node), language)})`;
}

/** The names of the driver's package `bson` that a code uses. */
export function usedTypes(code: string, names: readonly string[]): string[] {
  return names.filter((name) => new RegExp(`\\b${name}\\b`).test(code));
}
