import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempDir } from './temp-home.ts';

export const BINARY = join(import.meta.dir, '../../dist/bin', hostTarget(), 'botbuddy');

export function hostTarget(): string {
  return process.platform === 'darwin' ? 'darwin-arm64' : 'linux-x64';
}

export interface Finished {
  exitCode: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
  /** The last line of stdout that is JSON, or null. */
  receipt: Record<string, unknown> | null;
}

export interface Running {
  pid: number;
  kill(signal: NodeJS.Signals): void;
  finished: Promise<Finished>;
  stdoutSoFar(): string;
  stderrSoFar(): string;
}

/** One BotBuddy home with its own port range, worktrees and settings; ends everything that it started. */
export interface Stage extends AsyncDisposable {
  readonly home: string;
  readonly root: string;
  readonly environment: Record<string, string>;
  worktree(options: { config?: string; name?: string; files?: Record<string, string> }): string;
  start(cwd: string, args: string[], extra?: Record<string, string>): Running;
  botbuddy(cwd: string, args: string[], extra?: Record<string, string>): Promise<Finished>;
}

const ORPHANED_PIPES_MS = 1_000;

let stages = 0;

export async function makeStage(settings: Record<string, string> = {}): Promise<Stage> {
  const dir = makeTempDir('bb-stage-');
  const home = join(dir.path, 'home');
  const environment = {
    PATH: process.env['PATH'] ?? '/usr/bin:/bin',
    HOME: dir.path,
    LANG: 'C.UTF-8',
    BOTBUDDY_HOME: home,
    BOTBUDDY_PORT_RANGE: portRange(),
    BOTBUDDY_HOST_UNITS: '2',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_SYSTEM: '/dev/null',
    ...settings,
  };
  const running = new Set<Running>();
  const start = (cwd: string, args: string[], extra: Record<string, string> = {}): Running => {
    const started = startProcess([BINARY, ...args], cwd, { ...environment, ...extra });
    running.add(started);
    void started.finished.finally(() => running.delete(started));
    return started;
  };
  const worktrees: string[] = [];
  return {
    home,
    root: dir.path,
    environment,
    worktree: ({ config, name, files = {} }) => {
      const path = join(dir.path, name ?? `worktree-${worktrees.length + 1}`);
      worktrees.push(path);
      mkdirSync(path, { recursive: true });
      Bun.spawnSync(['git', 'init', '-q', path], { env: environment });
      if (config !== undefined) writeFileSync(join(path, 'botbuddy.toml'), config);
      for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text, { mode: 0o755 });
      return path;
    },
    start,
    botbuddy: (cwd, args, extra) => start(cwd, args, extra).finished,
    [Symbol.asyncDispose]: async () => {
      for (const process of running) process.kill('SIGTERM');
      await Promise.all([...running].map((process) => process.finished));
      if (existsSync(join(home, 'coordinator.db'))) {
        await Promise.all(worktrees.map((path) => startProcess([BINARY, 'down'], path, environment).finished));
      }
      await startProcess([BINARY, 'serve', '--stop'], dir.path, environment).finished;
      dir[Symbol.dispose]();
    },
  };
}

/** Ranges below the ephemeral ports, one a stage, spread by process so that parallel test processes stay apart. */
function portRange(): string {
  stages += 1;
  const first = 20_000 + ((process.pid * 37 + stages * 400) % 9_000);
  return `${first}-${first + 380}`;
}

export function startProcess(argv: string[], cwd: string, env: Record<string, string>): Running {
  const [command = '', ...args] = argv;
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const finished = new Promise<Finished>((resolve, reject) => {
    child.on('error', reject);
    const finish = (exitCode: number | null, signal: string | null): void =>
      resolve({ exitCode, signal, stdout, stderr, receipt: lastReceipt(stdout) });
    child.on('close', finish);
    // The orphans of a killed client keep its pipes open: then its exit is what counts.
    child.on('exit', (exitCode, signal) => setTimeout(() => finish(exitCode, signal), ORPHANED_PIPES_MS).unref());
  });
  return {
    pid: child.pid ?? 0,
    kill: (signal) => {
      child.kill(signal);
    },
    finished,
    stdoutSoFar: () => stdout,
    stderrSoFar: () => stderr,
  };
}

function lastReceipt(stdout: string): Record<string, unknown> | null {
  const line = stdout.trimEnd().split('\n').at(-1) ?? '';
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

export function readJson(path: string): Record<string, unknown> | null {
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>) : null;
}
