import { expect, test } from 'bun:test';
import { importing, runScript } from './run-script.ts';

test('an exit code that was set waits for what is still to be done', async () => {
  const script = `${importing('setExitCode', 'exit.ts')} setExitCode(7); setTimeout(() => console.log('done'), 5);`;
  expect(await runScript(script)).toMatchObject({ exitCode: 7, stdout: 'done\n' });
});

test('an exit now does not wait', async () => {
  const script = `${importing('exitNow', 'exit.ts')} setInterval(() => {}, 1_000_000); exitNow(9);`;
  expect((await runScript(script)).exitCode).toBe(9);
});
