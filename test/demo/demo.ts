/**
 * The main job on a sample, from a fresh clone: two worktrees of one repository ask at once for a stack on a host with
 * one unit. They take turns, each with ports of its own; each run ends with a receipt, and the cleanup with a proof.
 */
import { cpSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { builtBinary } from '../support/built-binary.ts';
import { type Finished, startProcess } from '../support/stage.ts';

const began = performance.now();
const say = (line: string): void =>
  console.log(`${((performance.now() - began) / 1_000).toFixed(1).padStart(5)} s  ${line}`);

const binary = await builtBinary();
const root = realpathSync(mkdtempSync(join(tmpdir(), 'botbuddy-demo-')));
const environment = {
  PATH: process.env['PATH'] ?? '/usr/bin:/bin',
  HOME: root,
  BOTBUDDY_HOME: join(root, 'home'),
  BOTBUDDY_HOST_UNITS: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
};

async function git(cwd: string, ...args: string[]): Promise<void> {
  const identity = ['-c', 'user.name=demo', '-c', 'user.email=demo@example.invalid'];
  const { exitCode, stderr } = await startProcess(['git', ...identity, ...args], cwd, environment).finished;
  if (exitCode !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
}

async function makeWorktrees(): Promise<string[]> {
  const main = join(root, 'alice');
  cpSync(join(import.meta.dir, 'sample'), main, { recursive: true });
  await git(main, 'init', '-q');
  await git(main, 'add', '.');
  await git(main, 'commit', '-qm', 'The sample');
  await git(main, 'worktree', 'add', '-q', '--detach', join(root, 'bob'));
  return [main, join(root, 'bob')];
}

async function runIn(worktree: string): Promise<Finished> {
  const agent = basename(worktree);
  say(`${agent}: botbuddy stack run --reap -- node integration-test.mjs`);
  const argv = [binary, 'stack', 'run', '--reap', '--', 'node', 'integration-test.mjs'];
  const run = startProcess(argv, worktree, environment);
  const finished = await run.finished;
  for (const line of finished.stderr.split('\n').filter(Boolean)) say(`${agent}: ${line}`);
  for (const line of finished.stdout.split('\n').filter((text) => text.startsWith(agent))) say(line);
  say(`${agent}: exit ${finished.exitCode}`);
  return finished;
}

function judge(runs: readonly Finished[]): string[] {
  const problems: string[] = [];
  for (const { exitCode, receipt } of runs) {
    const block = receipt?.['port_block'] as { released?: boolean; cleanup_proof?: string } | undefined;
    if (exitCode !== 0) problems.push(`exit code ${exitCode}`);
    if (receipt?.['cleanup'] !== true || block?.released !== true) problems.push('cleanup is not proven');
  }
  return problems;
}

try {
  say('two worktrees of one repository, one unit of capacity');
  const worktrees = await makeWorktrees();
  const runs = await Promise.all(worktrees.map(runIn));
  say('receipts, as an agent reads them:');
  for (const { receipt } of runs) console.log(JSON.stringify(receipt));
  const problems = judge(runs);
  const proofs = runs.map(
    ({ receipt }) => (receipt?.['port_block'] as { cleanup_receipt_id?: string } | undefined)?.cleanup_receipt_id,
  );
  say(
    problems.length === 0
      ? `both stacks are gone, proven by ${proofs.join(' and ')}`
      : `problems: ${problems.join(', ')}`,
  );
  process.exitCode = problems.length === 0 ? 0 : 1;
} finally {
  await startProcess([binary, 'serve', '--stop'], root, environment).finished;
  rmSync(root, { recursive: true, force: true });
}
