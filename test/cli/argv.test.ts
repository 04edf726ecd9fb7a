import { describe, expect, test } from 'bun:test';
import { parseArgv } from '../../src/cli/argv.ts';
import { findCommand } from '../../src/cli/command-tree.ts';

const ARGS = {
  timeout: { type: 'string' },
  reap: { type: 'boolean' },
  lease: { type: 'positional', required: false },
} as const;

const parse = (...argv: string[]) => parseArgv(argv, ARGS, 'stack run');

describe('strict arguments', () => {
  test('what stands behind -- reaches the child untouched', () => {
    const rest = ['npm', '--help', '--', '', '-x', 'a\nb', 'ünï', '--reap'];
    expect(parse('--reap', '--', ...rest)).toMatchObject({ flags: { reap: true }, rest });
  });

  test('a value may be attached or follow', () => {
    expect(parse('--timeout=5m').flags).toMatchObject({ timeout: '5m' });
    expect(parse('--timeout', '5m').flags).toMatchObject({ timeout: '5m' });
  });

  test.each([
    [['--timout', '5m'], 'did you mean --timeout?'],
    [['--timeout'], '--timeout needs a value'],
    [['--timeout', '--reap'], '--timeout needs a value'],
    [['--reap', '--reap'], 'given twice'],
    [['--reap=yes'], 'takes no value'],
    [['one', 'two'], "no use for 'two'"],
  ])('%p is refused by name', (argv, message) => {
    expect(() => parse(...argv)).toThrow(message);
  });
});

describe('the command tree', () => {
  test('finds the longest name and leaves the rest to its parser', () => {
    expect(findCommand(['stack', 'run', '--', 'true'])).toMatchObject({ name: 'stack run', argv: ['--', 'true'] });
    expect(findCommand(['down'])).toMatchObject({ name: 'down', argv: [] });
    expect(findCommand(['stack'])).toBeNull();
  });
});
