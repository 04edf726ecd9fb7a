import { describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempDir } from '../support/temp-home.ts';
import { parseJunit, readJunit, type TestTotals, verdict } from './junit-report.ts';

const REPORT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="5" assertions="1" failures="2" skipped="2" time="0.007">
  <testsuite name="test/a.test.ts" file="test/a.test.ts" tests="5">
    <testcase name="passes &amp; &lt;ok&gt;" classname="" time="0" file="test/a.test.ts" line="2" assertions="0" />
    <testcase name="fails" classname="" time="0" file="test/a.test.ts" line="2" assertions="1">
      <failure type="AssertionError" message="a &gt; b &#10;">text</failure>
    </testcase>
    <testcase name="todo" classname="" time="0" file="test/a.test.ts"><skipped message="TODO" /></testcase>
    <testsuite name="group" file="test/a.test.ts" tests="2">
      <testcase name="says &quot;no&quot;" classname="group" time="0" file="test/a.test.ts"><skipped /></testcase>
      <testcase name="breaks" classname="group" time="0" file="test/b.test.ts"><error message="x" /></testcase>
    </testsuite>
  </testsuite>
</testsuites>
`;

describe('a report', () => {
  test('is counted case by case, with the names of what was skipped', () => {
    expect(parseJunit(REPORT)).toEqual({
      passed: 1,
      failed: 2,
      skippedNames: ['test/a.test.ts > todo', 'test/a.test.ts > group > says "no"'],
      files: ['test/a.test.ts', 'test/b.test.ts'],
    });
  });

  test.each([
    ['is empty', ''],
    ['is cut off', REPORT.slice(0, -30)],
    ['is something else', '<html></html>'],
    ['counts other tests than it lists', REPORT.replace('tests="5" assertions', 'tests="6" assertions')],
    ['counts other failures than it lists', REPORT.replace('failures="2"', 'failures="1"')],
    ['counts other skips than it lists', REPORT.replace('skipped="2"', 'skipped="0"')],
  ])('that %s is none', (_what, text) => {
    expect(parseJunit(text)).toBeNull();
  });

  test('that is missing is none', () => {
    using directory = makeTempDir();
    expect(readJunit(join(directory.path, 'missing.xml'))).toBeNull();
  });
});

describe('the verdict', () => {
  const RUN = { exitCode: 0, expectedFiles: [], skippedFails: false };

  test('is the counts alone when all is well', () => {
    expect(verdict(totals({ passed: 3 }), RUN)).toEqual({ failed: false, lines: ['3 passed, 0 failed'] });
  });

  test('counts failures', () => {
    expect(verdict(totals({ passed: 3, failed: 2 }), { ...RUN, exitCode: 1 })).toMatchObject({
      failed: true,
      lines: ['3 passed, 2 failed'],
    });
  });

  test('names what was skipped, and lets it fail where it must not happen', () => {
    const skipped = totals({ passed: 3, skippedNames: ['a', 'b'] });
    expect(verdict(skipped, RUN)).toEqual({
      failed: false,
      lines: ['skipped: a', 'skipped: b', '3 passed, 0 failed, 2 skipped'],
    });
    const strict = verdict(skipped, { ...RUN, skippedFails: true });
    expect(strict.failed).toBeTrue();
    expect(strict.lines.at(-1)).toBe('3 passed, 2 failed');
  });

  test('no test at all is a failure', () => {
    expect(verdict(totals({}), RUN)).toMatchObject({ failed: true });
    expect(verdict(totals({}), RUN).lines.at(-1)).toBe('0 passed, 1 failed');
  });

  test('a file without a result is a failure', () => {
    const result = verdict(totals({ passed: 1, files: ['a'] }), { ...RUN, expectedFiles: ['a', 'b'] });
    expect(result).toEqual({ failed: true, lines: ['no result from b', '1 passed, 1 failed'] });
  });

  test('an exit code that nothing explains is a failure', () => {
    expect(verdict(totals({ passed: 1 }), { ...RUN, exitCode: 1 })).toMatchObject({ failed: true });
  });
});

test('the report of a real run is understood, and a test that ends the process leaves none', async () => {
  using directory = makeTempDir();
  const run = async (name: string, text: string) => {
    const path = join(directory.path, `${name}.test.ts`);
    writeFileSync(path, text);
    const report = join(directory.path, `${name}.xml`);
    const argv = [process.execPath, 'test', '--reporter=junit', `--reporter-outfile=${report}`, path];
    await Bun.spawn(argv, { cwd: directory.path, stdio: ['ignore', 'ignore', 'ignore'] }).exited;
    return readJunit(report);
  };
  const head = "import { expect, test } from 'bun:test';\n";
  const mixed = "test('a', () => {}); test.skip('b', () => {}); test('c', () => { expect(1).toBe(2); });";
  expect(await run('mixed', head + mixed)).toMatchObject({ passed: 1, failed: 1, skippedNames: [expect.any(String)] });
  expect(await run('ends', `${head}test('a', () => {}); test('b', () => { process.exit(0); });`)).toBeNull();
});

function totals(some: Partial<TestTotals>): TestTotals {
  return { passed: 0, failed: 0, skippedNames: [], files: [], ...some };
}
