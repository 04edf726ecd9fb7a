import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { ROOT } from './tracked-files.ts';

const TIMEOUT_MS = 60_000;

test(
  'a run of one file ends with its counts alone on the last line',
  async () => {
    const result = await runTests('test/platform/failure.test.ts');
    expect(result).toEqual({ exitCode: 0, lastLine: '3 passed, 0 failed' });
  },
  TIMEOUT_MS,
);

test('a filter that matches nothing is a failure', async () => {
  expect(await runTests('no/such/file')).toEqual({ exitCode: 1, lastLine: '0 passed, 1 failed' });
});

async function runTests(...filters: string[]) {
  const child = Bun.spawn([process.execPath, join(ROOT, 'test/run-tests.ts'), ...filters], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
  });
  const stdout = await new Response(child.stdout).text();
  await child.exited;
  return { exitCode: child.exitCode, lastLine: stdout.trimEnd().split('\n').at(-1) };
}
