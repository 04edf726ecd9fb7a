import { expect, test } from 'bun:test';
import { importing, runScript } from './run-script.ts';

test('nobody is asked where there is no terminal, and nothing hangs', async () => {
  const script = `${importing('confirm', 'prompt.ts')} console.log(await confirm('Sure?'));`;
  expect(await runScript(script)).toMatchObject({ stdout: 'null\n', stderr: '', exitCode: 0 });
});
