/**
 * What `npm test` runs: builds this machine's binary when it is older than its sources, runs every test file, and ends
 * with `N passed, N failed` alone on the last line. Arguments are path filters.
 * The counts come from the JUnit report: a test that ends the process early leaves none, and that is a failure.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readJunit, verdict } from './repository/junit-report.ts';

const ROOT = join(import.meta.dirname, '..');
const HOST_TARGET = `${process.platform}-${process.arch}`;
const BUILD_INPUTS = ['src', 'build.ts', 'dist-targets', 'package.json', 'package-lock.json', 'tsconfig.json'];
const TEST_TIMEOUT_MS = 20_000;

async function main(filters: string[]): Promise<number> {
  const files = testFiles(filters);
  if (files.length === 0) return reportBroken(`no test file matches ${filters.join(' ')}`);
  const built = await buildWhenStale();
  if (built !== 0) return reportBroken(`the build failed with ${built}`);
  const scratch = mkdtempSync(join(tmpdir(), 'bb-junit-'));
  try {
    const report = join(scratch, 'report.xml');
    const options = [`--timeout=${TEST_TIMEOUT_MS}`, '--reporter=junit', `--reporter-outfile=${report}`];
    const exitCode = await run(['test', ...options, ...files.map((file) => `./${file}`)]);
    return summarise(report, files, exitCode);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function summarise(report: string, expectedFiles: string[], exitCode: number): number {
  const totals = readJunit(report);
  if (totals === null) return reportBroken(`the test run left no readable report (exit code ${exitCode})`);
  const result = verdict(totals, { exitCode, expectedFiles, skippedFails: process.env['CI'] === 'true' });
  for (const line of result.lines) console.log(line);
  return result.failed ? 1 : 0;
}

function reportBroken(reason: string): number {
  console.log(`${reason}\n0 passed, 1 failed`);
  return 1;
}

function testFiles(filters: string[]): string[] {
  const wanted = filters.map((filter) => filter.replace(/^\.\//, ''));
  return [...new Bun.Glob('test/**/*.test.ts').scanSync({ cwd: ROOT })]
    .filter((file) => wanted.length === 0 || wanted.some((filter) => file.includes(filter)))
    .sort();
}

async function buildWhenStale(): Promise<number> {
  const binary = join(ROOT, 'dist', 'bin', HOST_TARGET, 'botbuddy');
  const builtAt = lstatSync(binary, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const changedAt = Math.max(...BUILD_INPUTS.map((name) => newestChange(join(ROOT, name))));
  return builtAt > changedAt ? 0 : run(['build.ts', '--target', HOST_TARGET]);
}

/** Directories count too: their time tells of a file that was removed. */
function newestChange(path: string): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return 0;
  if (!stats.isDirectory()) return stats.mtimeMs;
  return Math.max(stats.mtimeMs, ...readdirSync(path).map((name) => newestChange(join(path, name))));
}

async function run(argv: string[]): Promise<number> {
  const child = Bun.spawn([process.execPath, ...argv], { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
  await child.exited;
  return child.signalCode === null ? (child.exitCode ?? 1) : 1;
}

process.exitCode = await main(process.argv.slice(2));
