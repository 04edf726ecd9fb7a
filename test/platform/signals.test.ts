import { expect, test } from 'bun:test';
import { exitCodeOfSignal, onTerminationSignals, type TerminationSignal } from '../../src/platform/signals.ts';
import { importing, runScript } from './run-script.ts';

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s calls the handler and does not end the process',
  async (name) => {
    const { promise, resolve } = Promise.withResolvers<TerminationSignal>();
    const stop = onTerminationSignals(resolve);
    process.kill(process.pid, name);
    expect(await promise).toBe(name);
    stop();
  },
);

test('nothing listens any more once the handler is taken back', () => {
  const before = process.listenerCount('SIGTERM');
  const stop = onTerminationSignals(() => {});
  expect(process.listenerCount('SIGTERM')).toBe(before + 1);
  stop();
  expect(process.listenerCount('SIGTERM')).toBe(before);
});

test.if(process.platform === 'linux')('SIGHUP stays ignored where the process was started so', async () => {
  const script = `${importing('onTerminationSignals', 'signals.ts')}
    onTerminationSignals(() => console.log('called'));
    process.kill(process.pid, 'SIGHUP');
    await Bun.sleep(20);
    console.log('alive');`;
  const wrapped = Bun.spawn(['sh', '-c', 'trap "" HUP; exec "$@"', 'sh', process.execPath, '-e', script], {
    stdout: 'pipe',
  });
  expect(await new Response(wrapped.stdout).text()).toBe('alive\n');
  expect((await runScript(script)).stdout).toBe('called\nalive\n');
});

test('the exit code of a signal is what a shell would give', () => {
  expect(exitCodeOfSignal('SIGINT')).toBe(130);
  expect(exitCodeOfSignal('SIGKILL')).toBe(137);
  expect(exitCodeOfSignal('SIGTERM')).toBe(143);
  expect(exitCodeOfSignal('SIG40')).toBe(168);
});
