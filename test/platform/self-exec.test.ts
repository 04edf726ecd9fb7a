import { expect, test } from 'bun:test';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readTextIfPresent } from '../../src/platform/durable-files.ts';
import { readProcess } from '../../src/platform/process-table.ts';
import { endProcessTree, isAlive, type ProcessIdentity } from '../../src/platform/processes.ts';
import { isCompiled, selfArgv, spawnDaemon } from '../../src/platform/self-exec.ts';
import { fixturePath } from '../fixtures/processes/start-fixture.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { importing, runScript } from './run-script.ts';

const PATH = process.env['PATH'] ?? '';

test('from source, this program is Bun and the main file', () => {
  expect(isCompiled).toBeFalse();
  expect(selfArgv(['serve', '--embedded'])).toEqual([
    process.execPath,
    join(import.meta.dirname, '../../src/main.ts'),
    'serve',
    '--embedded',
  ]);
});

test('a service has a session of its own, a private log, and an environment that tells what it is', async () => {
  using directory = makeTempDir();
  const logFile = join(directory.path, 'logs', 'service.log');
  const script = 'env; echo "to stderr" >&2; exec tail -f /dev/null';
  const daemon = spawnDaemon({ argv: ['sh', '-c', script], cwd: directory.path, env: { PATH, ONLY: 'this' }, logFile });
  await eventually('the service wrote', () => readTextIfPresent(logFile)?.includes('to stderr'));
  const { pid } = daemon.identity;
  expect(readProcess(pid)).toMatchObject({ pgid: pid, sid: pid });
  const lines = readFileSync(logFile, 'utf8').split('\n');
  expect(lines.filter((line) => /^[A-Z_]+=/.test(line) && !line.startsWith('PWD=')).sort()).toEqual([
    'BOTBUDDY_DAEMON=1',
    'ONLY=this',
    `PATH=${PATH}`,
  ]);
  expect(statSync(logFile).mode & 0o777).toBe(0o600);
  await endProcessTree({ groups: [daemon.identity], graceMs: 0 });
});

test('a service outlives the process that started it and does not hold that up', async () => {
  using directory = makeTempDir();
  const options = {
    argv: [fixturePath('forever'), join(directory.path, 'ready')],
    cwd: directory.path,
    env: { PATH },
    logFile: join(directory.path, 'service.log'),
  };
  const script = `${importing('spawnDaemon', 'self-exec.ts')}
    console.log(JSON.stringify(spawnDaemon(${JSON.stringify(options)}).identity));`;
  const identity = JSON.parse((await runScript(script)).stdout) as ProcessIdentity;
  await eventually('the service is ready', () => readTextIfPresent(join(directory.path, 'ready')) !== null);
  expect(isAlive(identity)).toBeTrue();
  await endProcessTree({ groups: [identity], graceMs: 0 });
  expect(isAlive(identity)).toBeFalse();
});
