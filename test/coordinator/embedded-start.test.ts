import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HelperChild } from '../../src/coordinator/helper-child.ts';
import { serve } from '../../src/coordinator/serve.ts';
import { tryLock } from '../../src/platform/kernel-lock.ts';
import { configureLogging } from '../../src/platform/logging.ts';
import { identityOf } from '../../src/platform/processes.ts';
import { eventually } from '../support/eventually.ts';
import { EmbeddedStage, helperScript } from './_embedded-stage.ts';

let stage: EmbeddedStage;

beforeEach(() => {
  stage = new EmbeddedStage();
});

afterEach(async () => {
  await stage[Symbol.asyncDispose]();
});

describe('its Helper', () => {
  test('is started again when it ends', async () => {
    await stage.listeningAs(stage.start(helperScript(`echo $$ >> ${stage.home}/lives`)));
    await eventually('three lives', () => stage.helperLives().length >= 3);
    expect(new Set(stage.helperLives()).size).toBe(stage.helperLives().length);
  });

  test('that ignores SIGTERM is killed', async () => {
    mkdirSync(stage.home);
    const argv = helperScript(`trap '' TERM; echo $$ >> ${stage.home}/lives; while :; do sleep 600; done`);
    const env = { PATH: process.env['PATH'] ?? '' };
    const child = new HelperChild({
      argv,
      cwd: stage.home,
      env,
      logFile: join(stage.home, 'helper.log'),
      termGraceMs: 50,
    });
    const [life = ''] = await eventually(
      'the Helper lives',
      () => stage.helperLives()[0] !== undefined && stage.helperLives(),
    );
    await child.stop();
    expect(identityOf(Number(life))).toBeNull();
    expect(stage.helperLives()).toHaveLength(1);
  });

  test('that cannot be started does not end the coordinator', async () => {
    const found = await stage.listeningAs(stage.start(['/nothing/there']));
    expect(await stage.call(found, 'coordinator_status', {})).toMatchObject({ ok: true });
  });
});

test.skipIf(!existsSync('/dev/full'))('a log that cannot be written ends nothing', async () => {
  const served = stage.startWithoutLog();
  const found = await stage.listeningAs(served);
  expect(await stage.call(found, 'coordinator_status', {})).toMatchObject({ ok: true });
  served.kill('SIGTERM');
  expect(await served.finished).toMatchObject({ exitCode: 0, stdout: 'ended\n' });
});

describe('a start that must fail says why and changes nothing', () => {
  test('on a database that is none', async () => {
    mkdirSync(stage.home, { mode: 0o700 });
    writeFileSync(join(stage.home, 'coordinator.db'), 'no database');
    expect(await stage.start().finished).toMatchObject({ exitCode: 5, stdout: 'log_corrupt\n' });
    expect(readFileSync(join(stage.home, 'coordinator.db'), 'utf8')).toBe('no database');
    expect(stage.discovery()).toBeNull();
  });

  test.each([
    ['an address that is not loopback', { BOTBUDDY_LISTEN: '0.0.0.0:0' }],
    ['a database of another kind', { BOTBUDDY_DATABASE_URL: 'postgres://localhost/x' }],
    ['a TTL that is no duration', { BOTBUDDY_LEASE_TTL_SECS: 'soon' }],
  ])('with %s', async (_what, environment) => {
    expect(await stage.start([], environment).finished).toMatchObject({ exitCode: 5, stdout: 'setting_invalid\n' });
    expect(stage.discovery()).toBeNull();
  });

  test('on a port that is taken', async () => {
    const taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') });
    try {
      const environment = { BOTBUDDY_LISTEN: `127.0.0.1:${taken.port}` };
      expect(await stage.start([], environment).finished).toMatchObject({
        exitCode: 5,
        stdout: 'embedded_start_failed\n',
      });
    } finally {
      await taken.stop(true);
    }
  });

  test('serve in the foreground, on a home that another one serves', async () => {
    mkdirSync(stage.home, { mode: 0o700 });
    using _lock = tryLock(join(stage.home, 'coordinator.db.lock'));
    const options = { home: stage.home, environment: { BOTBUDDY_LOG_LEVEL: 'silent' } };
    await expect(serve({ embedded: false, ...options })).rejects.toMatchObject({ code: 'log_unavailable' });
    expect(await serve({ embedded: true, ...options })).toBe(0);
    configureLogging({ level: 'silent' });
  });
});
