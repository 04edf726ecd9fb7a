/** Taste as rules: sizes, `any`, marks of unfinished work, what the repository may contain. */
import type { Node } from 'oxc-parser';
import { type SourceFile, type Visit, walk } from './source-file.ts';

export const FILE_LINES_MAX = 300;
/** No reason lifts this one. */
export const FILE_LINES_HARD_MAX = 500;
export const FUNCTION_LINES_MAX = 70;

/** Files over the limit, each with the reason why it is better whole. */
export type LongFiles = Readonly<Record<string, string>>;

export function sizeOffences(file: SourceFile, longFiles: LongFiles): string[] {
  const excused = longFiles[file.path] !== undefined;
  // Tests are read by chapter, not as a whole.
  const limit = excused || file.path.startsWith('test/') ? FILE_LINES_HARD_MAX : FILE_LINES_MAX;
  const offences = file.lineCount > limit ? [`${file.path}: ${file.lineCount} lines, at most ${limit}`] : [];
  if (excused && file.lineCount <= FILE_LINES_MAX) offences.push(`${file.path}: is excused as long and is not`);
  for (const visit of walk(file.program)) {
    const lines = functionLines(file, visit);
    if (lines <= FUNCTION_LINES_MAX) continue;
    offences.push(
      `${file.path}:${file.lineOf(visit.node)}: a function of ${lines} lines, at most ${FUNCTION_LINES_MAX}`,
    );
  }
  return offences;
}

/** 0 for what is no function, and for one that holds tests, which is a chapter and no procedure. */
function functionLines(file: SourceFile, { node, parent }: Visit): number {
  if (!/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type)) return 0;
  if (parent?.type === 'CallExpression' && rootName(parent.callee) === 'describe') return 0;
  if (file.path.startsWith('test/') && holdsTests(node)) return 0;
  return file.lineOf({ start: node.end }) - file.lineOf(node) + 1;
}

function holdsTests(node: Node): boolean {
  if (!('body' in node) || node.body === null || Array.isArray(node.body) || node.body.type !== 'BlockStatement')
    return false;
  return node.body.body.some(
    (statement) =>
      statement.type === 'ExpressionStatement' &&
      statement.expression.type === 'CallExpression' &&
      ['describe', 'test'].includes(rootName(statement.expression.callee) ?? ''),
  );
}

function rootName(node: Node): string | null {
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'MemberExpression') return rootName(node.object);
  return node.type === 'CallExpression' ? rootName(node.callee) : null;
}

export function typeOffences(file: SourceFile): string[] {
  const anys = [...walk(file.program)].filter(({ node }) => node.type === 'TSAnyKeyword');
  const ignored = file.comments.filter(({ value }) => /@ts-(ignore|nocheck)/.test(value));
  return [
    ...anys.map(({ node }) => `${file.path}:${file.lineOf(node)}: any`),
    ...ignored.map(({ line }) => `${file.path}:${line}: the compiler is told to look away`),
  ];
}

export function commentOffences(file: SourceFile): string[] {
  return file.comments
    .filter(({ value }) => /\b(TODO|FIXME|XXX|HACK)\b/.test(value))
    .map(({ line }) => `${file.path}:${line}: unfinished work belongs into an issue`);
}

const TOP_LEVEL: ReadonlySet<string> = new Set([
  ...['src', 'test', 'dist-targets', 'docs', 'build.ts', 'bunfig.toml', 'package.json', 'package-lock.json'],
  ...['tsconfig.json', 'biome.json', 'README.md', 'AGENTS.md', 'CHANGELOG.md', 'LICENSE'],
]);

export function topLevelOffences(paths: readonly string[]): string[] {
  const tops = new Set(paths.map((path) => path.split('/')[0] ?? ''));
  return [...tops]
    .filter((name) => !TOP_LEVEL.has(name) && !name.startsWith('.'))
    .map((name) => `${name}: does not belong on the top level`);
}

/** Directories of somebody's machine, and where packages were fetched from. */
const MACHINE_PATHS = ['work', 'root', 'farm', 'Users'].map((name) => `/${name}/`);
const MACHINE_PATH = new RegExp(`(^|[^A-Za-z0-9_.\\-/])(${MACHINE_PATHS.join('|')})`);
const REGISTRY = new RegExp(`https?://[^\\s"']*(registry|artifactory|nexus|verdaccio)\\b|_auth${'Token'}`, 'i');

export function addressOffences(path: string, text: string): string[] {
  return text.split('\n').flatMap((line, index) => {
    const what = MACHINE_PATH.test(line)
      ? 'a path of one machine'
      : REGISTRY.test(line)
        ? 'the address of a registry'
        : null;
    return what === null ? [] : [`${path}:${index + 1}: ${what}`];
  });
}

export function lockFileOffences(text: string): string[] {
  const lock: unknown = JSON.parse(text);
  const packages = typeof lock === 'object' && lock !== null && 'packages' in lock ? lock.packages : null;
  if (typeof packages !== 'object' || packages === null) return ['package-lock.json: lists no packages'];
  return Object.entries(packages)
    .filter(([, entry]) => typeof entry === 'object' && entry !== null && 'resolved' in entry)
    .map(([name]) => `package-lock.json: ${name} names its download address`);
}

export function npmSettingsOffences(text: string): string[] {
  const lines = text.split('\n').map((line) => line.trim());
  const wanted = 'omit-lockfile-registry-resolved=true';
  return lines.includes(wanted) ? [] : [`.npmrc: lacks ${wanted}`];
}
