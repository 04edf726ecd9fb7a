/** TOML text as plain values, with the line on which each of them stands. */
import { type AST, getStaticTOMLValue, ParseError, parseTOML } from 'toml-eslint-parser';

export type TomlPath = readonly (string | number)[];

export interface TomlDocument {
  readonly value: Record<string, unknown>;
  /** The line of the value, or of the nearest thing around it that has one. */
  lineOf(path: readonly PropertyKey[]): number;
}

export class TomlSyntaxError extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.name = 'TomlSyntaxError';
    this.line = line;
  }
}

export function parseTomlWithLines(text: string): TomlDocument {
  const program = parse(text);
  const lines = new Map<string, number>();
  for (const node of program.body[0].body) {
    if (node.type === 'TOMLTable') noteTable(lines, node);
    else noteKeyValue(lines, [], node);
  }
  return {
    value: getStaticTOMLValue(program),
    lineOf: (path) => {
      for (let length = path.length; length > 0; length -= 1) {
        const line = lines.get(JSON.stringify(path.slice(0, length)));
        if (line !== undefined) return line;
      }
      return 1;
    },
  };
}

function parse(text: string): AST.TOMLProgram {
  try {
    return parseTOML(text, { tomlVersion: '1.0' });
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw syntaxError(text, error);
  }
}

/** The parser notices a missing value only where the next line begins. */
function syntaxError(text: string, error: ParseError): TomlSyntaxError {
  const before = text.slice(0, error.index).trimEnd();
  if (!before.endsWith('=')) return new TomlSyntaxError(error.message, error.lineNumber);
  return new TomlSyntaxError('the value is missing', before.split('\n').length);
}

function noteTable(lines: Map<string, number>, table: AST.TOMLTable): void {
  note(lines, table.resolvedKey, table.loc.start.line);
  for (const entry of table.body) noteKeyValue(lines, table.resolvedKey, entry);
}

function noteKeyValue(lines: Map<string, number>, under: TomlPath, entry: AST.TOMLKeyValue): void {
  const path = [...under, ...entry.key.keys.map((key) => (key.type === 'TOMLBare' ? key.name : key.value))];
  note(lines, path, entry.key.loc.start.line);
  noteContent(lines, path, entry.value);
}

function noteContent(lines: Map<string, number>, path: TomlPath, node: AST.TOMLContentNode): void {
  if (node.type === 'TOMLInlineTable') for (const entry of node.body) noteKeyValue(lines, path, entry);
  if (node.type !== 'TOMLArray') return;
  for (const [index, element] of node.elements.entries()) {
    note(lines, [...path, index], element.loc.start.line);
    noteContent(lines, [...path, index], element);
  }
}

/** Names everything on the way too; what is mentioned twice keeps its first line. */
function note(lines: Map<string, number>, path: TomlPath, line: number): void {
  for (let length = 1; length <= path.length; length += 1) {
    const key = JSON.stringify(path.slice(0, length));
    if (!lines.has(key)) lines.set(key, line);
  }
}
