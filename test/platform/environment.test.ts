import { expect, test } from 'bun:test';
import { allowedDaemonEnvironment, readEnvironment, scrubEnvironment } from '../../src/platform/environment.ts';

test('what is read is a copy', () => {
  const environment = readEnvironment();
  expect(environment['PATH']).toBe(process.env['PATH'] as string);
  expect(environment).not.toBe(process.env as never);
});

test('variables that load code are scrubbed and all others stay', () => {
  const loading = {
    BUN_OPTIONS: '--preload x',
    BUN_BE_BUN: '1',
    NODE_OPTIONS: '-r x',
    LD_PRELOAD: 'x.so',
    LD_AUDIT: 'x.so',
    DYLD_INSERT_LIBRARIES: 'x.dylib',
  };
  const harmless = { PATH: '/bin', BUNDLE_PATH: 'b', NODE_ENV: 'test', MY_BUN_X: '1', EMPTY: '' };
  expect(scrubEnvironment({ ...loading, ...harmless })).toEqual(harmless);
});

test('a service gets the fixed names and the named settings, nothing of an agent or a lease', () => {
  const allowed = {
    PATH: '/bin',
    HOME: '/h',
    USER: 'u',
    LANG: 'C',
    LC_ALL: 'C',
    TZ: 'UTC',
    TMPDIR: '/t',
    DOCKER_HOST: 'unix:///d',
    BOTBUDDY_HOME: '/b',
  };
  const refused = {
    BOTBUDDY_UNKNOWN: '1',
    BOTBUDDY_AGENT_SESSION_TOKEN: 'secret',
    BOTBUDDY_LEASE_ID: 'lease',
    BOTBUDDY_REAP_MARK: 'lease',
    AWS_SECRET_ACCESS_KEY: 'secret',
    NODE_OPTIONS: '-r x',
    LD_PRELOAD: 'x',
    OTHER: '1',
  };
  const names = ['BOTBUDDY_HOME', 'BOTBUDDY_AGENT_SESSION_TOKEN', 'BOTBUDDY_LEASE_ID', 'BOTBUDDY_REAP_MARK', 'OTHER'];
  expect(allowedDaemonEnvironment(names, { ...allowed, ...refused })).toEqual(allowed);
});
