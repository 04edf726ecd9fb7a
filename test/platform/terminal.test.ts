import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isTTY, terminalWidth } from '../../src/platform/terminal.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { importing, runScript } from './run-script.ts';

test('output far larger than a pipe arrives whole before the process ends at once', async () => {
  const script = `${importing('writeStdout, writeStderr', 'terminal.ts')}
    writeStdout('o'.repeat(1_000_000) + '\\n'); writeStderr('e'.repeat(300_000)); process.exit(0);`;
  const result = await runScript(script);
  expect(result.stdout).toHaveLength(1_000_001);
  expect(result.stderr).toHaveLength(300_000);
});

test('a slow reader gets all of it through a pipe that does not block', async () => {
  const writer = `${importing('writeStdout', 'terminal.ts')} process.stdout.write(''); writeStdout('o'.repeat(500_000));`;
  const pipe = Bun.spawn(['sh', '-c', '"$0" -e "$1" | (sleep 0.1; wc -c)', process.execPath, writer], {
    stdout: 'pipe',
  });
  expect((await new Response(pipe.stdout).text()).trim()).toBe('500000');
});

test('a reader that went away is not an error', async () => {
  const writer = `${importing('writeStdout', 'terminal.ts')} writeStdout('o'.repeat(500_000)); console.error('went on');`;
  const pipe = Bun.spawn(['sh', '-c', '"$0" -e "$1" | true', process.execPath, writer], {
    stdout: 'pipe',
    stderr: 'pipe',
  });
  expect(await new Response(pipe.stderr).text()).toBe('went on\n');
});

test('a pipe is no terminal and has the default width', async () => {
  const script = `${importing('isTTY, terminalWidth', 'terminal.ts')}
    console.log(isTTY('stdin'), isTTY('stdout'), isTTY('stderr'), terminalWidth());`;
  expect((await runScript(script)).stdout).toBe('false false false 80\n');
  expect(typeof isTTY('stdout')).toBe('boolean');
  expect(terminalWidth()).toBeGreaterThan(0);
});

test('whether output ends in a newline is known for a plain file, and only there', async () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'out');
  const script = `${importing('lastStdoutByteIsNewline', 'terminal.ts')} console.error(lastStdoutByteIsNewline());`;
  const answers: string[] = [];
  for (const content of ['', 'line\n', 'no newline']) {
    writeFileSync(path, content);
    const argv = ['sh', '-c', 'exec "$0" -e "$1" >>"$2"', process.execPath, script, path];
    answers.push(Bun.spawnSync(argv).stderr.toString().trim());
  }
  answers.push((await runScript(script)).stderr.trim());
  expect(answers).toEqual(['true', 'true', 'false', 'null']);
});

test('nothing is animated where no terminal is', async () => {
  const script = `${importing('canAnimate', 'terminal.ts')} console.log(canAnimate());`;
  expect((await runScript(script, { TERM: 'xterm' })).stdout).toBe('false\n');
});
