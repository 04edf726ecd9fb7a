import { expect, test } from 'bun:test';
import { Failure } from '../../src/platform/failure.ts';
import { renderLine } from '../../src/platform/logging.ts';
import { randomToken } from '../../src/platform/random.ts';
import { importing, runScript } from './run-script.ts';

const AT = Date.UTC(2025, 0, 2, 3, 4, 5, 6);

test('a JSON line has time, level, component, message and the fields', () => {
  const line = renderLine('json', AT, 'warn', 'helper', 'beacon refused', { status: 503, size: 10n });
  expect(line).toEndWith('\n');
  expect(JSON.parse(line)).toEqual({
    at: '2025-01-02T03:04:05.006Z',
    level: 'warn',
    component: 'helper',
    message: 'beacon refused',
    status: 503,
    size: '10',
  });
});

test('a text line is one line', () => {
  const line = renderLine('text', AT, 'info', 'engine', 'loaded', { events: 3, path: 'a\nb' });
  expect(line).toBe('2025-01-02T03:04:05.006Z info engine: loaded events=3 path="a\\nb"\n');
});

test('an error shows its message, code, fields and cause', () => {
  const error = new Failure('state_unwritable', 'no', { cause: new Error('disk'), fields: { errno: 'ENOSPC' } });
  const line = JSON.parse(renderLine('json', AT, 'error', 'log', 'x', { error }));
  expect(line.error).toEqual({ error: 'no', code: 'state_unwritable', errno: 'ENOSPC', cause: { error: 'disk' } });
});

test.each(['json', 'text'] as const)('a token never gets into a %s line', (format) => {
  const token = randomToken('bbo');
  const error = new Error(`refused ${token}`);
  const line = renderLine(format, AT, 'info', 'client', `sent ${token}`, { header: `Bearer ${token}`, error });
  expect(line).not.toContain(token.slice(4));
  expect(line).toContain('bbo_<redacted>');
});

test('lines go to stderr, from the level on that the environment names', async () => {
  const script = `${importing('logger', 'logging.ts')}
    const log = logger('x'); log.debug('d'); log.info('i'); log.warn('w'); log.error('e');`;
  const messages = async (env: Record<string, string>) => {
    const result = await runScript(script, env);
    expect(result.stdout).toBe('');
    return result.stderr
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).message)
      .join('');
  };
  expect(await messages({})).toBe('we');
  expect(await messages({ BOTBUDDY_LOG_LEVEL: 'debug' })).toBe('diwe');
  expect(await messages({ BOTBUDDY_LOG_LEVEL: 'ERROR' })).toBe('e');
  expect(await messages({ BOTBUDDY_LOG_LEVEL: 'silent' })).toBe('');
  expect(await messages({ BOTBUDDY_LOG_LEVEL: 'nonsense' })).toBe('we');
});

test('a program can choose level and format itself', async () => {
  const script = `${importing('configureLogging, logger', 'logging.ts')}
    configureLogging({ level: 'info', format: 'text' }); logger('x').info('hello', { a: 1 });`;
  expect((await runScript(script, { BOTBUDDY_LOG_LEVEL: 'error' })).stderr).toMatch(/ info x: hello a=1\n$/);
});
