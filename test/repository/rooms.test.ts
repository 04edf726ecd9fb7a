import { describe, expect, test } from 'bun:test';
import { globalOffences } from './global-rules.ts';
import { cycles, nameOffences, roomOf, roomOffences, unreachable } from './room-rules.ts';
import { ROOMS } from './rooms.ts';
import { parseSource, type SourceFile } from './source-file.ts';
import { readSources, trackedPaths } from './tracked-files.ts';

describe('this repository', () => {
  const sources = readSources(trackedPaths().filter((path) => path.startsWith('src/')));

  test('has only edges that the table of rooms allows', () => {
    expect(roomOffences(sources)).toEqual([]);
  });

  test('keeps clock, chance, console, process and runtime in their rooms, and core and decision files pure', () => {
    expect(globalOffences(sources)).toEqual([]);
  });

  test('has no cycle of imports', () => {
    expect(cycles(sources)).toEqual([]);
  });

  test('has each of its rooms in the table', () => {
    expect(sources.filter(({ path }) => roomOf(path) === null).map(({ path }) => path)).toEqual([]);
  });
});

describe('the table', () => {
  test('names only rooms that exist', () => {
    for (const room of Object.values(ROOMS)) {
      for (const name of [...Object.keys(room.imports), ...Object.keys(room.only ?? {})])
        expect(ROOMS).toHaveProperty(name);
    }
  });

  test('keeps coordinator and helper apart, and core to itself', () => {
    expect(ROOMS['coordinator']?.imports).not.toHaveProperty('helper');
    expect(ROOMS['helper']?.imports).not.toHaveProperty('coordinator');
    expect(ROOMS['core']?.imports).toEqual({});
  });
});

describe('an offending edge is found as', () => {
  test.each([
    ['a plain import', "import { x } from '../log/a.ts';"],
    ['an import for its effect', "import '../log/a.ts';"],
    ['a type-only import', "import type { X } from '../log/a.ts';"],
    ['an inline type import', "import { type X } from '../log/a.ts';"],
    ['a re-export', "export { x } from '../log/a.ts';"],
    ['a re-export of everything', "export * from '../log/a.ts';"],
    ['a dynamic import', "const x = await import('../log/a.ts');"],
    ['a type by import()', "type X = import('../log/a.ts').X;"],
    ['a typeof import()', "type X = typeof import('../log/a.ts');"],
    ['a require', "const x = require('../log/a.ts');"],
    ['an import.meta.require', "const x = import.meta.require('../log/a.ts');"],
    ['an import equals', "import x = require('../log/a.ts');"],
    ['a file by URL', "const x = new URL('../log/a.ts', import.meta.url);"],
  ])('%s', (_what, text) => {
    const offences = roomOffences([file('src/client/b.ts', text), file('src/log/a.ts', '')]);
    expect(offences).toHaveLength(1);
    expect(offences[0]).toStartWith('src/client/b.ts:1: ');
    expect(offences[0]).toContain('../log/a.ts');
  });

  test('a computed name, which nobody can check', () => {
    expect(roomOffences([file('src/client/b.ts', 'const x = await import(name);')])).toHaveLength(1);
  });
});

describe('the rules of edges refuse', () => {
  test.each([
    ['a package that is not the room’s', 'src/log/a.ts', "import z from 'zod';"],
    ['a scoped package', 'src/client/a.ts', "import { x } from '@modelcontextprotocol/server/http';"],
    ['a module of the runtime', 'src/flows/a.ts', "import { spawn } from 'node:child_process';"],
    ['a module of the runtime in core', 'src/core/a.ts', "import { join } from 'node:path';"],
    ['an edge out of src', 'src/flows/a.ts', "import { x } from '../../test/support/eventually.ts';"],
    ['an import without its ending', 'src/core/b.ts', "import { x } from './a';"],
    ['an edge to a missing file', 'src/core/b.ts', "import { x } from './missing.ts';"],
    ['a value of core in protocol', 'src/protocol/a.ts', "import { x } from '../core/a.ts';"],
    ['a private file from elsewhere', 'src/flows/a.ts', "import { x } from '../stack/_private.ts';"],
    ['a private file from above', 'src/stack/b.ts', "import { x } from './deep/_private.ts';"],
    ['the coordinator from another command', 'src/cli/status.ts', "import { x } from '../coordinator/a.ts';"],
    ['the helper from serve', 'src/cli/serve.ts', "import { x } from '../helper/a.ts';"],
    ['a re-export within a room', 'src/core/b.ts', "export type { X } from './a.ts';"],
    ['a value passed on between rooms', 'src/stack/b.ts', "export { x } from '../platform/a.ts';"],
    ['a decision file that reaches out', 'src/stack/claim-rules.ts', "import { x } from '../platform/a.ts';"],
    ['a decision file that loads a module', 'src/log/claim-rules.ts', "import { join } from 'node:path';"],
  ])('%s', (_what, path, text) => {
    expect(roomOffences(neighbours(file(path, text)))).toHaveLength(1);
  });

  test.each([
    ['a package of the room', 'src/protocol/a.ts', "import { z } from 'zod/mini';"],
    ['a private file of the same folder', 'src/stack/b.ts', "import { x } from './_private.ts';"],
    ['a type of core in protocol', 'src/protocol/a.ts', "export type { X } from '../core/a.ts';"],
    ['the coordinator from serve', 'src/cli/commands/serve.ts', "import { x } from '../../coordinator/a.ts';"],
    ['the helper from supervise', 'src/cli/supervise.ts', "import { x } from '../helper/a.ts';"],
    [
      'types of a platform file in a decision file',
      'src/stack/claim-rules.ts',
      "import type { X } from '../platform/a.ts';",
    ],
    ['a decision file in a decision file', 'src/stack/claim-rules.ts', "import { x } from './other-rules.ts';"],
    ['a pure neighbour of a decision file', 'src/stack/claim-rules.ts', "import { x } from './b.ts';"],
    ['a text file', 'src/log/a.ts', "import schema from './schema.sql' with { type: 'text' };"],
  ])('but not %s', (_what, path, text) => {
    expect(roomOffences(neighbours(file(path, text)))).toEqual([]);
  });
});

test.each([
  'src/core/index.ts',
  'src/core/utils.ts',
  'src/core/lease-helpers.ts',
  'src/lib/a.ts',
  'src/core/types.ts',
  'src/core/leaseTable.ts',
])('the name %s is refused', (path) => {
  expect(nameOffences(path)).toHaveLength(1);
});

test.each(['src/helper/jobs.ts', 'src/core/_draft.ts', 'src/log/sql-text.d.ts', 'src/core/lease-table.ts'])(
  'the name %s is fine',
  (path) => {
    expect(nameOffences(path)).toEqual([]);
  },
);

describe('purity', () => {
  test.each([
    'const x = Date.now();',
    'const x = new Date(5);',
    'const x: Date | null = null;',
    'const x = Math.random();',
    "const x = Math['random']();",
    'const x = performance.now();',
    'console.log(1);',
    'const x = process.env;',
    'const x = Bun.version;',
    'setTimeout(f, 1);',
    'const x = { setTimeout };',
    'async function f() {}',
    'const f = async () => {};',
    'class A { async f() {} }',
    'const x = new Promise(f);',
    'const x = crypto.subtle;',
    'const x = globalThis;',
    'const x = import.meta.url;',
    'for await (const x of y) {}',
  ])('is broken by %s', (text) => {
    expect(globalOffences([file('src/core/a.ts', text)]).length).toBeGreaterThan(0);
    expect(globalOffences([file('src/stack/claim-rules.ts', text)]).length).toBeGreaterThan(0);
  });

  test('is not broken by fields and members of the same names', () => {
    const text =
      'interface X { process: string; Date(): void } const y = x.console.process; const z = { fetch: 1, Date: 2 };';
    expect(globalOffences([file('src/core/a.ts', text)])).toEqual([]);
  });
});

describe('the world', () => {
  test.each([
    'const x = Date.now();',
    'const x = new Date();',
    'const x = Date();',
    'const x = Math.random();',
    'const x = performance.now();',
    'const x = crypto.randomUUID();',
    "import { randomBytes } from 'node:crypto';",
    'console.error(1);',
    'process.exit(1);',
    'const x = process.env;',
    'setInterval(f, 1);',
    'const x = await fetch(y);',
    'const x = Bun.spawn([]);',
    'const b = Bun;',
    'const x = globalThis.console;',
  ])('is kept from flows: %s', (text) => {
    expect(globalOffences([file('src/flows/a.ts', text)]).length).toBeGreaterThan(0);
    expect(globalOffences([file('src/platform/a.ts', text)])).toEqual([]);
  });

  test('is let in where the table says so, and time that was given may be formatted', () => {
    expect(globalOffences([file('src/client/a.ts', 'const x = await fetch(y);')])).toEqual([]);
    expect(globalOffences([file('src/coordinator/a.ts', 'const x = Bun.serve(y); setImmediate(f);')])).toEqual([]);
    expect(globalOffences([file('src/flows/a.ts', 'const x = new Date(at).toISOString();')])).toEqual([]);
  });
});

test('what a decision file draws in from its room must be pure too', () => {
  const rules = file('src/stack/claim-rules.ts', "import { x } from './b.ts';");
  expect(globalOffences([rules, file('src/stack/b.ts', 'const x = new Date(5);')])).toHaveLength(1);
  expect(
    roomOffences([
      rules,
      file('src/stack/b.ts', "import { x } from '../platform/a.ts';"),
      file('src/platform/a.ts', ''),
    ]),
  ).toHaveLength(1);
});

test('a cycle of values is found, one of types or of lazy imports is none', () => {
  const a = "import { b } from './b.ts';";
  expect(cycles([file('src/core/a.ts', a), file('src/core/b.ts', "import { a } from './a.ts';")])).toHaveLength(1);
  expect(cycles([file('src/core/a.ts', a), file('src/core/b.ts', "import type { A } from './a.ts';")])).toEqual([]);
  expect(cycles([file('src/core/a.ts', a), file('src/core/b.ts', "const x = () => import('./a.ts');")])).toEqual([]);
});

test('a file that nothing leads to is found, and one that only a dynamic import leads to is not', () => {
  const files = [
    file('src/main.ts', "const x = await import('./cli/a.ts');"),
    file('src/cli/a.ts', "import type { B } from './b.ts';"),
    file('src/cli/b.ts', ''),
    file('src/cli/dead.ts', "import { a } from './a.ts';"),
    file('src/cli/ambient.d.ts', ''),
  ];
  expect(unreachable(files, ['src/main.ts'])).toEqual(['src/cli/dead.ts']);
});

function file(path: string, text: string): SourceFile {
  return parseSource(path, text);
}

function neighbours(subject: SourceFile): SourceFile[] {
  const paths = [
    'core/a',
    'core/b',
    'coordinator/a',
    'helper/a',
    'platform/a',
    'stack/b',
    'stack/other-rules',
    'stack/_private',
    'stack/deep/_private',
  ];
  const others = paths.map((path) => file(`src/${path}.ts`, '')).filter(({ path }) => path !== subject.path);
  return [subject, ...others];
}
