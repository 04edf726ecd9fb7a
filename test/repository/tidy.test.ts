import { describe, expect, test } from 'bun:test';
import { unreachable } from './room-rules.ts';
import { parseSource } from './source-file.ts';
import {
  addressOffences,
  commentOffences,
  FILE_LINES_HARD_MAX,
  FILE_LINES_MAX,
  FUNCTION_LINES_MAX,
  type LongFiles,
  lockFileOffences,
  npmSettingsOffences,
  sizeOffences,
  topLevelOffences,
  typeOffences,
} from './tidy-rules.ts';
import { readSources, readTracked, trackedPaths } from './tracked-files.ts';

const LONG_FILES: LongFiles = {};

const paths = trackedPaths();
const sources = readSources(paths);

describe('this repository', () => {
  test('has files and functions of a size that can be read', () => {
    expect(sources.flatMap((file) => sizeOffences(file, LONG_FILES))).toEqual([]);
    expect(Object.keys(LONG_FILES).filter((path) => !paths.includes(path))).toEqual([]);
  });

  test('has no any and never tells the compiler to look away', () => {
    expect(sources.flatMap(typeOffences)).toEqual([]);
  });

  test('marks no unfinished work in comments', () => {
    expect(sources.flatMap(commentOffences)).toEqual([]);
  });

  test('has no source file that the program, its build and its simulation do not reach', () => {
    expect(unreachable(sources, ['src/main.ts', 'build.ts', 'test/simulation/simulate.ts'])).toEqual([]);
  });

  test('has nothing on its top level that does not belong there', () => {
    expect(topLevelOffences(paths)).toEqual([]);
  });

  test('names no path of one machine and no registry', () => {
    expect(paths.flatMap((path) => addressOffences(path, readTracked(path)))).toEqual([]);
  });

  test('locks its packages without saying where they were fetched', () => {
    expect(lockFileOffences(readTracked('package-lock.json'))).toEqual([]);
    expect(npmSettingsOffences(readTracked('.npmrc'))).toEqual([]);
  });
});

describe('the rules find', () => {
  test('a file that is too long, with and without a reason', () => {
    const long = source('x();\n'.repeat(FILE_LINES_MAX + 1));
    expect(sizeOffences(long, {})).toHaveLength(1);
    expect(sizeOffences(long, { 'src/core/a.ts': 'one table' })).toEqual([]);
    expect(sizeOffences(source('x();\n'.repeat(FILE_LINES_MAX)), {})).toEqual([]);
    expect(
      sizeOffences(source('x();\n'.repeat(FILE_LINES_HARD_MAX + 1)), { 'src/core/a.ts': 'one table' }),
    ).toHaveLength(1);
  });

  test('an excuse that is no longer needed', () => {
    expect(sizeOffences(source('x();\n'), { 'src/core/a.ts': 'one table' })).toHaveLength(1);
  });

  test.each([
    ['function f() {', '}'],
    ['const f = () => {', '};'],
    ['class A { f() {', '} }'],
    ['test("x", () => {', '});'],
  ])('a function that is too long: %s', (head, tail) => {
    const body = (count: number) => source(`${head}\n${'x();\n'.repeat(count)}${tail}\n`);
    expect(sizeOffences(body(FUNCTION_LINES_MAX - 1), {})).toHaveLength(1);
    expect(sizeOffences(body(FUNCTION_LINES_MAX - 2), {})).toEqual([]);
  });

  test('no fault in a long function of tests', () => {
    const body = `function suite() {\n${"test('x', f);\n".repeat(FUNCTION_LINES_MAX)}}\n`;
    expect(sizeOffences(parseSource('test/log/suite.ts', body), {})).toEqual([]);
    expect(sizeOffences(source(body), {})).toHaveLength(1);
  });

  test.each(['describe', 'describe.if(x)', 'describe.each(x)'])('no fault in a long %s', (name) => {
    expect(sizeOffences(source(`${name}('x', () => {\n${'x();\n'.repeat(FUNCTION_LINES_MAX)}});\n`), {})).toEqual([]);
  });

  test.each([
    'let x: any;',
    'const x = y as any;',
    'type X = Record<string, any>;',
    '// @ts-ignore\nx();',
    '// @ts-nocheck',
  ])('a type that is none: %j', (text) => {
    expect(typeOffences(source(text))).toHaveLength(1);
  });

  test('no fault in the word any', () => {
    expect(typeOffences(source('// any\nconst any = "any"; x.any();'))).toEqual([]);
  });

  test('a mark of unfinished work', () => {
    const mark = ['TO', 'DO'].join('');
    expect(commentOffences(source(`/* ${mark}: later */`))).toHaveLength(1);
    expect(commentOffences(source(`const x = '${mark}';`))).toEqual([]);
  });

  test('a stranger on the top level', () => {
    expect(topLevelOffences(['src/a.ts', '.npmrc', '.ci/run', 'docs/a.md'])).toEqual([]);
    expect(topLevelOffences(['scripts/a.sh', 'scripts/b.sh', 'notes.md'])).toHaveLength(2);
  });

  test('a path of one machine', () => {
    for (const name of ['work', 'root', 'farm', 'Users']) {
      expect(addressOffences('a.md', `see\n"/${name}/x"`)).toEqual(['a.md:2: a path of one machine']);
    }
    expect(addressOffences('a.md', '$BOTBUDDY_HOME/root/x src/work/x')).toEqual([]);
  });

  test('the address of a registry', () => {
    const host = ['registry', 'npmjs', 'org'].join('.');
    expect(addressOffences('a.json', `"https://${host}/x.tgz"`)).toHaveLength(1);
    expect(addressOffences('a.json', `//x:_${'auth'}Token=y`)).toHaveLength(1);
    expect(addressOffences('a.json', '"https://github.com/sponsors/x"')).toEqual([]);
  });

  test('a lock file that says where a package was fetched', () => {
    expect(lockFileOffences('{"packages": {"": {}, "node_modules/x": {"version": "1.0.0"}}}')).toEqual([]);
    expect(lockFileOffences('{"packages": {"node_modules/x": {"resolved": "https://x"}}}')).toHaveLength(1);
    expect(lockFileOffences('{}')).toHaveLength(1);
  });

  test('npm settings that would put it there', () => {
    expect(npmSettingsOffences('omit-lockfile-registry-resolved=true\n')).toEqual([]);
    expect(npmSettingsOffences('# omit-lockfile-registry-resolved=true\n')).toHaveLength(1);
  });
});

function source(text: string) {
  return parseSource('src/core/a.ts', text);
}
