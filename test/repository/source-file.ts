/** A source file as the rules see it: its text, its syntax tree, and every edge that leads out of it. */
import { type Node, parseSync, visitorKeys } from 'oxc-parser';

export interface ImportEdge {
  readonly specifier: string;
  readonly line: number;
  /** Erased at run time, or not. */
  readonly kind: 'type' | 'value';
  /** Loaded only when the program comes to it. */
  readonly lazy: boolean;
  /** `export ... from`, or `export { imported }`. */
  readonly reexport: 'no' | 'names' | 'all';
}

export interface SourceFile {
  /** Relative to the repository, with `/`. */
  readonly path: string;
  readonly text: string;
  readonly program: Node;
  readonly comments: readonly { readonly value: string; readonly line: number }[];
  readonly imports: readonly ImportEdge[];
  readonly lineCount: number;
  lineOf(node: { readonly start: number }): number;
}

export interface Visit {
  readonly node: Node;
  readonly parent: Node | null;
  /** The property of the parent that holds the node. */
  readonly key: string;
}

export function parseSource(path: string, text: string): SourceFile {
  const result = parseSync(path, text, { sourceType: 'module' });
  const first = result.errors[0];
  if (first !== undefined) throw new Error(`${path}: ${first.message}`);
  const starts = lineStarts(text);
  const lineOf = ({ start }: { readonly start: number }) => upperBound(starts, start);
  return {
    path,
    text,
    program: result.program,
    comments: result.comments.map((comment) => ({ value: comment.value, line: lineOf(comment) })),
    imports: [...walk(result.program)].flatMap((visit) =>
      edgesOf(visit).map((edge) => ({ ...edge, line: lineOf(visit.node) })),
    ),
    lineCount: text === '' ? 0 : text.replace(/\n$/, '').split('\n').length,
    lineOf,
  };
}

/** Every node below (and with) `root`, parents first. */
export function* walk(root: Node): Generator<Visit> {
  const stack: Visit[] = [{ node: root, parent: null, key: '' }];
  for (let visit = stack.pop(); visit !== undefined; visit = stack.pop()) {
    yield visit;
    const { node } = visit;
    const below: Visit[] = [];
    for (const key of visitorKeys[node.type] ?? []) {
      const value: unknown = Reflect.get(node, key);
      for (const child of Array.isArray(value) ? value : [value]) {
        if (isNode(child)) below.push({ node: child, parent: node, key });
      }
    }
    stack.push(...below.reverse());
  }
}

type BareEdge = Omit<ImportEdge, 'line'>;

const COMPUTED = '(computed)';

function edgesOf({ node }: Visit): BareEdge[] {
  switch (node.type) {
    case 'ImportDeclaration': {
      const allTypes =
        node.specifiers.length > 0 &&
        node.specifiers.every((each) => 'importKind' in each && each.importKind === 'type');
      return [edge(node.source, node.importKind === 'type' || allTypes ? 'type' : 'value')];
    }
    case 'ExportAllDeclaration':
      return [edge(node.source, node.exportKind === 'type' ? 'type' : 'value', 'all')];
    case 'ExportNamedDeclaration': {
      if (node.source === null) return [];
      const allTypes = node.specifiers.length > 0 && node.specifiers.every((each) => each.exportKind === 'type');
      return [edge(node.source, node.exportKind === 'type' || allTypes ? 'type' : 'value', 'names')];
    }
    case 'ImportExpression':
      return [{ ...edge(node.source, 'value'), lazy: true }];
    case 'TSImportType':
      return [edge(node.source, 'type')];
    case 'TSExternalModuleReference':
      return [edge(node.expression, 'value')];
    case 'CallExpression':
      return isRequire(node.callee) ? [edge(node.arguments[0], 'value')] : [];
    case 'NewExpression':
      return isFileUrl(node) ? [edge(node.arguments[0], 'value')] : [];
    default:
      return [];
  }
}

function edge(source: unknown, kind: 'type' | 'value', reexport: ImportEdge['reexport'] = 'no'): BareEdge {
  const literal =
    isNode(source) && source.type === 'Literal' && typeof source.value === 'string' ? source.value : COMPUTED;
  return { specifier: literal, kind, lazy: false, reexport };
}

/** `require(...)` and `import.meta.require(...)`. */
function isRequire(callee: Node): boolean {
  if (callee.type === 'Identifier') return callee.name === 'require';
  return (
    callee.type === 'MemberExpression' && callee.object.type === 'MetaProperty' && isNamed(callee.property, 'require')
  );
}

/** `new URL('./file', import.meta.url)`: a file that the program reaches by name. */
function isFileUrl(node: Node & { type: 'NewExpression' }): boolean {
  const base = node.arguments[1];
  return (
    isNamed(node.callee, 'URL') &&
    base?.type === 'MemberExpression' &&
    base.object.type === 'MetaProperty' &&
    isNamed(base.property, 'url')
  );
}

function isNamed(node: Node, name: string): boolean {
  return node.type === 'Identifier' && node.name === name;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** The number of starts at or before the offset, which is the line counted from 1. */
function upperBound(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
