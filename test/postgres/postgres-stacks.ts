/**
 * Real input: PostgreSQL as a process stack. Eight worktrees of one repository, two units: each runs `pgbench -i` and
 * `pgbench -T` under `stack run --reap` at once, then again with the default release and `botbuddy down`. Holds when
 * every receipt has exit 0, never more than two servers live, no port or data is shared, and nothing is left.
 * PostgreSQL refuses to run as root: started as root, everything runs as the user `postgres` or `nobody`.
 */
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtBinary } from '../support/built-binary.ts';
import { type Finished, startProcess } from '../support/stage.ts';

const WORKTREES = 8;
const UNITS = 2;
const BENCH_SECS = Number(process.env['PGBENCH_SECS'] ?? 5);

const CONFIG = `
[stack]
driver = "process"
units = 1
ports = ["db"]
setup = [["sh", "setup.sh"]]

[stack.service.db]
prepare = [["initdb", "-D", "{dir}/db", "-U", "postgres", "-A", "trust", "--no-sync"]]
command = ["postgres", "-D", "{dir}/db", "-p", "{port.db}", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
ready   = { exec = ["pg_isready", "-q", "-h", "127.0.0.1", "-p", "{port.db}"], timeout = "60s" }
stop    = { signal = "SIGINT", grace = "10s" }

[stack.env]
DATABASE_URL = "postgres://postgres@127.0.0.1:{port.db}/postgres"
PGDIR = "{dir}"
`;

const SETUP = 'psql -qX "$DATABASE_URL" -c "create table owner (name text)"\n';

const BENCH = `set -eu
name=$(basename "$PWD")
strangers=$(psql -qXAt "$DATABASE_URL" -c "select count(*) from owner where name <> '$name'")
[ "$strangers" = 0 ] || { echo "the data of another worktree is here" >&2; exit 9; }
psql -qX "$DATABASE_URL" -c "insert into owner values ('$name')"
pgbench -i -q "$DATABASE_URL" >/dev/null 2>&1
pgbench -T ${BENCH_SECS} -c 2 "$DATABASE_URL" | grep -E "^tps"
echo "$BOTBUDDY_PORT_DB $PGDIR" >used.txt
`;

const postgresPrograms = postgresBin();
const root = realpathSync(mkdtempSync(join(tmpdir(), 'botbuddy-postgres-')));
const home = join(root, 'home');
const user = unprivilegedUser();
const binary = join(root, 'botbuddy');
const environment = {
  PATH: `${postgresPrograms}:${process.env['PATH'] ?? '/usr/bin:/bin'}`,
  HOME: root,
  LANG: 'C.UTF-8',
  BOTBUDDY_HOME: home,
  BOTBUDDY_HOST_UNITS: String(UNITS),
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
};

function postgresBin(): string {
  const versions = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : [];
  const found = ['15', ...versions]
    .map((version) => `/usr/lib/postgresql/${version}/bin`)
    .find((bin) => existsSync(join(bin, 'pgbench')));
  if (found === undefined) throw new Error('PostgreSQL with pgbench is not installed (apt-get install postgresql)');
  return found;
}

function unprivilegedUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith('postgres:') || entry.startsWith('nobody:'));
  const [, , uid, gid] = (line ?? 'nobody:x:65534:65534').split(':');
  return { uid: Number(uid), gid: Number(gid) };
}

const asUser = (argv: string[]): string[] =>
  user === null ? argv : ['setpriv', `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups', ...argv];

const start = (cwd: string, argv: string[]) => startProcess(asUser(argv), cwd, environment);

async function must(cwd: string, ...argv: string[]): Promise<void> {
  const { exitCode, stderr } = await start(cwd, argv).finished;
  if (exitCode !== 0) throw new Error(`${argv.join(' ')}: ${stderr}`);
}

async function makeWorktrees(): Promise<string[]> {
  const main = join(root, 'main');
  mkdirSync(main);
  writeFileSync(join(main, 'botbuddy.toml'), CONFIG);
  writeFileSync(join(main, 'setup.sh'), SETUP);
  writeFileSync(join(main, 'bench.sh'), BENCH);
  if (user !== null) for (const path of [root, main]) chownSync(path, user.uid, user.gid);
  await must(main, 'git', 'init', '-q');
  await must(main, 'git', 'add', '.');
  await must(main, 'git', '-c', 'user.name=t', '-c', 'user.email=t@example.invalid', 'commit', '-qm', 'The sample');
  const paths = Array.from({ length: WORKTREES }, (_, i) => join(root, `agent-${i + 1}`));
  for (const path of paths) await must(main, 'git', 'worktree', 'add', '-q', '--detach', path);
  return paths;
}

/** Servers of this home: its postgres processes that no other of them has forked. */
function liveServers(): number {
  const ours = new Map(
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((pid) => {
        try {
          const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
          const isOurs =
            /(^|\/)postgres$/.test(argv[0] ?? '') && argv.some((word) => word.startsWith(join(home, 'stacks')));
          const parent = /^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
          return isOurs ? [[pid, parent] as const] : [];
        } catch {
          return [];
        }
      }),
  );
  return [...ours.values()].filter((parent) => !ours.has(parent)).length;
}

const problems: string[] = [];
const check = (holds: boolean, problem: string): void => {
  if (!holds) problems.push(problem);
};

async function watchServers(until: Promise<unknown>): Promise<number> {
  let done = false;
  void until.finally(() => {
    done = true;
  });
  let most = 0;
  while (!done) {
    most = Math.max(most, liveServers());
    await Bun.sleep(50);
  }
  return most;
}

function checkRuns(name: string, runs: readonly Finished[], worktrees: readonly string[]): void {
  for (const [i, { exitCode, receipt, stderr }] of runs.entries()) {
    check(exitCode === 0, `${name}: run ${i + 1} ended with ${exitCode}: ${stderr.trim().split('\n').at(-1)}`);
    check(receipt?.['exit_code'] === 0, `${name}: receipt ${i + 1} says ${JSON.stringify(receipt)}`);
  }
  const used = worktrees.map((path) =>
    existsSync(join(path, 'used.txt')) ? readFileSync(join(path, 'used.txt'), 'utf8').trim() : '?',
  );
  const places = used.map((line) => line.split(' ')[1]);
  check(new Set(places).size === worktrees.length, `${name}: data directories are shared: ${places.join(' ')}`);
}

function checkNothingLeft(name: string): void {
  check(liveServers() === 0, `${name}: ${liveServers()} servers are left`);
  const claims = readdirSync(join(home, 'ports')).filter((file) => /^\d+\.json$/.test(file));
  check(claims.length === 0, `${name}: claims are left: ${claims.join(' ')}`);
  for (const slot of readdirSync(join(home, 'stacks'))) {
    check(!existsSync(join(home, 'stacks', slot, 'data')), `${name}: data of slot ${slot} is left`);
  }
}

async function round(name: string, worktrees: readonly string[], flags: readonly string[]): Promise<void> {
  const began = performance.now();
  const runs = Promise.all(
    worktrees.map((path) => start(path, [binary, 'stack', 'run', ...flags, '--', 'sh', 'bench.sh']).finished),
  );
  const most = await watchServers(runs);
  checkRuns(name, await runs, worktrees);
  check(most <= UNITS, `${name}: ${most} servers were alive at once`);
  check(most >= 1, `${name}: no server was ever seen`);
  console.log(
    `${name}: ${worktrees.length} runs in ${((performance.now() - began) / 1_000).toFixed(1)} s, at most ${most} servers at once`,
  );
}

try {
  cpSync(await builtBinary(), binary);
  chmodSync(binary, 0o755);
  const worktrees = await makeWorktrees();
  await round('with --reap', worktrees, ['--reap']);
  checkNothingLeft('with --reap');
  await round('with the default release', worktrees, []);
  const downs = await Promise.all(worktrees.map((path) => start(path, [binary, 'down']).finished));
  for (const [i, down] of downs.entries())
    check(down.exitCode === 0, `down ${i + 1} ended with ${down.exitCode}: ${down.stdout}`);
  checkNothingLeft('after down');
} finally {
  await start(root, [binary, 'serve', '--stop']).finished;
  if (process.env['KEEP'] === undefined) rmSync(root, { recursive: true, force: true });
  else console.log(`kept ${root}`);
}
for (const problem of problems) console.error(`error: ${problem}`);
console.log(problems.length === 0 ? 'PostgreSQL stacks: all holds' : `PostgreSQL stacks: ${problems.length} problems`);
process.exit(problems.length === 0 ? 0 : 1);
