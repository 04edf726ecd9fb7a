/** Clock, chance, console, process and the runtime's own objects: each only in the room that the table gives it to. */
import type { Node } from 'oxc-parser';
import { pureFiles, roomOf } from './room-rules.ts';
import { HARMLESS_BUN } from './rooms.ts';
import { type SourceFile, type Visit, walk } from './source-file.ts';

/** Names that stand for the world itself. */
const WORLDLY = new Set([
  'console',
  'process',
  'performance',
  'globalThis',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'fetch',
  'alert',
  'prompt',
]);
/** Members that do, of objects that are harmless otherwise. */
const WORLDLY_MEMBERS = new Set(['Date.now', 'Math.random', 'crypto.randomUUID', 'crypto.getRandomValues']);
const RANDOM_IMPORTS = new Set([
  'randomUUID',
  'randomBytes',
  'randomInt',
  'getRandomValues',
  'randomFillSync',
  'webcrypto',
]);
/** What a pure file may not even name. */
const IMPURE = new Set([
  ...WORLDLY,
  'Date',
  'crypto',
  'Bun',
  'Promise',
  'queueMicrotask',
  'require',
  'Worker',
  'WebSocket',
  'navigator',
]);

export function globalOffences(files: readonly SourceFile[]): string[] {
  const pure = pureFiles(files);
  return files.flatMap((file) => offencesOf(file, pure.has(file.path)));
}

function offencesOf(file: SourceFile, pure: boolean): string[] {
  const room = roomOf(file.path);
  if (room === null) return [];
  const mayUse = (name: string) => room.globals.includes('*') || room.globals.includes(name);
  const offences: string[] = [];
  for (const visit of walk(file.program)) {
    const name = pure ? impurity(visit) : worldlyName(visit);
    if (name !== null && (pure || !mayUse(name)))
      offences.push(`${file.path}:${file.lineOf(visit.node)}: uses ${name}`);
    const member = pure ? null : bunMember(visit);
    if (member !== null && !room.bun.includes('*') && ![...room.bun, ...HARMLESS_BUN].includes(member)) {
      offences.push(`${file.path}:${file.lineOf(visit.node)}: uses Bun.${member}`);
    }
  }
  return offences;
}

function impurity(visit: Visit): string | null {
  const { node } = visit;
  if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) return 'await';
  if ('async' in node && node.async === true) return 'async';
  if (node.type === 'MetaProperty') return 'import.meta';
  if (memberName(node) === 'Math.random') return 'Math.random';
  const name = referenceName(visit);
  return name !== null && IMPURE.has(name) ? name : null;
}

function worldlyName(visit: Visit): string | null {
  const { node } = visit;
  const member = memberName(node);
  if (member !== null && WORLDLY_MEMBERS.has(member)) return member;
  if (node.type === 'NewExpression' && node.arguments.length === 0 && isNamed(node.callee, 'Date')) return 'new Date()';
  if (node.type === 'CallExpression' && isNamed(node.callee, 'Date')) return 'Date()';
  if (
    node.type === 'ImportSpecifier' &&
    node.imported.type === 'Identifier' &&
    RANDOM_IMPORTS.has(node.imported.name)
  ) {
    return node.imported.name;
  }
  const name = referenceName(visit);
  return name !== null && WORLDLY.has(name) ? name : null;
}

function bunMember(visit: Visit): string | null {
  if (referenceName(visit) !== 'Bun') return null;
  const { parent } = visit;
  if (parent?.type === 'MemberExpression' && !parent.computed && parent.property.type === 'Identifier')
    return parent.property.name;
  if (parent?.type === 'TSQualifiedName') return parent.right.name;
  return '(itself)';
}

/** `object.member` of a plain access, through `?.` too. */
function memberName(node: Node): string | null {
  if (node.type !== 'MemberExpression' || node.object.type !== 'Identifier') return null;
  if (!node.computed) return node.property.type === 'Identifier' ? `${node.object.name}.${node.property.name}` : null;
  return node.property.type === 'Literal' ? `${node.object.name}.${String(node.property.value)}` : null;
}

/** The name of an identifier that refers to something, null for one that only names a member or a field. */
function referenceName({ node, parent, key }: Visit): string | null {
  if (node.type !== 'Identifier' || parent === null) return null;
  const named = 'computed' in parent && parent.computed === false && (key === 'property' || key === 'key');
  const shorthand = parent.type === 'Property' && parent.shorthand;
  const onlyAName =
    (named && !shorthand) ||
    (parent.type === 'TSQualifiedName' && key === 'right') ||
    parent.type === 'ImportSpecifier' ||
    parent.type === 'ExportSpecifier' ||
    parent.type === 'TSNamedTupleMember';
  return onlyAName ? null : node.name;
}

function isNamed(node: Node, name: string): boolean {
  return node.type === 'Identifier' && node.name === name;
}
