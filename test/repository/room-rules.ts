/** Which edges between files break the table of rooms. Each offence names the file, the line and the edge. */
import { dirname, join, normalize } from 'node:path/posix';
import { DECISION_FILE, MAIN, PURE_ROOMS, ROOMS, type Room } from './rooms.ts';
import type { ImportEdge, SourceFile } from './source-file.ts';

const FORBIDDEN_NAMES = /(^|[-_])(utils?|common|helpers|types|lib|libs|misc|shared)$/;
const FILE_NAME = /^_?[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+)+$/;
const FOLDER_NAME = /^_?[a-z0-9]+(-[a-z0-9]+)*$/;

export function roomOffences(files: readonly SourceFile[]): string[] {
  const known = new Set(files.map(({ path }) => path));
  const pure = pureFiles(files);
  return files.flatMap((file) => [
    ...nameOffences(file.path),
    ...file.imports.flatMap((edge) => {
      const offence = edgeOffence(file, edge, known, pure.has(file.path));
      return offence === null
        ? []
        : [`${file.path}:${edge.line}: ${offence} (${edge.kind} import of '${edge.specifier}')`];
    }),
  ]);
}

/** Names that say nothing, and files that only pass on what others hold. */
export function nameOffences(path: string): string[] {
  const parts = path.split('/');
  const name = parts.pop() ?? '';
  const stem = name.replace(/\..*$/, '');
  const offences: string[] = [];
  if (stem === 'index' || stem === 'mod') offences.push(`${path}: a barrel`);
  if ([...parts, stem].some((part) => FORBIDDEN_NAMES.test(part))) offences.push(`${path}: a name that says nothing`);
  if (!FILE_NAME.test(name) || parts.some((part) => !FOLDER_NAME.test(part)))
    offences.push(`${path}: not in kebab-case`);
  return offences;
}

function edgeOffence(file: SourceFile, edge: ImportEdge, known: ReadonlySet<string>, pure: boolean): string | null {
  const room = roomOf(file.path);
  if (room === null) return 'a file outside of every room';
  if (edge.specifier === '(computed)') return 'the name of an import must be written out';
  if (!edge.specifier.startsWith('.')) {
    return outsideOffence(room, edge.specifier) ?? (pure && edge.kind === 'value' ? 'a pure file reaches out' : null);
  }
  const target = normalize(join(dirname(file.path), edge.specifier));
  if (!target.startsWith('src/')) return 'an edge that leaves src';
  if (/\.(ts|json|sql|html|css)$/.exec(target) === null) return 'an import without its ending';
  if (target.endsWith('.ts') && !known.has(target)) return 'an edge to a file that does not exist';
  return insideOffence(file, edge, room, target, pure);
}

function insideOffence(
  file: SourceFile,
  edge: ImportEdge,
  room: NamedRoom,
  target: string,
  pure: boolean,
): string | null {
  if (/(^|\/)_[^/]*$/.test(target) && dirname(target) !== dirname(file.path))
    return `${target} is private to its folder`;
  const other = roomOf(target);
  if (other === null) return 'an edge to a file outside of every room';
  const sameRoom = other.name === room.name;
  if (edge.reexport === 'all') return 'a barrel passes everything on';
  if (edge.reexport === 'names' && (sameRoom || edge.kind === 'value')) return 'a barrel passes names on';
  if (sameRoom) return null;
  if (pure && edge.kind === 'value' && !PURE_SOURCES.includes(other.name)) return 'a pure file reaches out';
  const permission = room.imports[other.name];
  if (permission === undefined) return `${room.name} may not import ${other.name}`;
  if (permission === 'types' && edge.kind === 'value') return `${room.name} may import only types of ${other.name}`;
  const files = room.only?.[other.name];
  if (files !== undefined && !files.test(file.path.split('/').at(-1) ?? '')) {
    return `only ${files.source} of ${room.name} may import ${other.name}`;
  }
  return null;
}

/** Rooms whose values a decision file may use. */
const PURE_SOURCES = ['core', 'protocol'];

/** The pure rooms, the decision files, and what these draw in from their own room. */
export function pureFiles(files: readonly SourceFile[]): Set<string> {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const pure = new Set<string>();
  const queue = files
    .map(({ path }) => path)
    .filter((path) => PURE_ROOMS.includes(roomOf(path)?.name ?? '') || DECISION_FILE.test(path));
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    const file = byPath.get(path);
    if (file === undefined || pure.has(path)) continue;
    pure.add(path);
    queue.push(...valueTargets(file).filter((target) => roomOf(target)?.name === roomOf(file.path)?.name));
  }
  return pure;
}

function outsideOffence(room: NamedRoom, specifier: string): string | null {
  if (/^(node:|bun(:|$))/.test(specifier)) {
    const allowed = room.builtins.includes('*') || room.builtins.includes(specifier);
    return allowed ? null : `${room.name} may not use this module of the runtime`;
  }
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  return room.packages.includes(name) ? null : `${room.name} may not use this package`;
}

interface NamedRoom extends Room {
  readonly name: string;
}

export function roomOf(path: string): NamedRoom | null {
  if (path === 'src/main.ts') return { name: 'main', ...MAIN };
  const [top, name = '', ...rest] = path.split('/');
  const room = ROOMS[name];
  return top === 'src' && rest.length > 0 && room !== undefined ? { name, ...room } : null;
}

/** Cycles of imports that a start of the program runs into: each is a file that cannot be understood alone. */
export function cycles(files: readonly SourceFile[]): string[] {
  const edges = new Map(files.map((file) => [file.path, valueTargets(file)]));
  const state = new Map<string, 'open' | 'done'>();
  const found: string[] = [];
  const visit = (path: string, trail: readonly string[]) => {
    if (state.get(path) === 'done') return;
    if (state.get(path) === 'open') {
      found.push([...trail.slice(trail.indexOf(path)), path].join(' -> '));
      return;
    }
    state.set(path, 'open');
    for (const target of edges.get(path) ?? []) visit(target, [...trail, path]);
    state.set(path, 'done');
  };
  for (const { path } of files) visit(path, []);
  return found;
}

function valueTargets(file: SourceFile): string[] {
  return file.imports
    .filter((edge) => edge.kind === 'value' && !edge.lazy && edge.specifier.startsWith('.'))
    .map((edge) => normalize(join(dirname(file.path), edge.specifier)));
}

/** Source files that no chain of imports from the roots reaches. Declarations have no importer and are left out. */
export function unreachable(files: readonly SourceFile[], roots: readonly string[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const reached = new Set<string>();
  const queue = [...roots];
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    if (reached.has(path)) continue;
    reached.add(path);
    for (const { specifier } of byPath.get(path)?.imports ?? []) {
      if (specifier.startsWith('.')) queue.push(normalize(join(dirname(path), specifier)));
    }
  }
  return files
    .map(({ path }) => path)
    .filter((path) => path.startsWith('src/') && !path.endsWith('.d.ts') && !reached.has(path));
}
