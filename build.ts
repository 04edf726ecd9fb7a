/**
 * Compiles src/main.ts for the targets in dist-targets/ into dist/, and records what was built from which source.
 * `bun build.ts [--target NAME]...`; a build of the same source adds to the manifest, one of another source replaces it.
 */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';

const ROOT = import.meta.dirname;
const DIST = join(ROOT, 'dist');
const RELEASE = join(DIST, 'release');
const PROGRAM = 'botbuddy';
const SHORT_NAME = 'bb';

const Target = z.strictObject({
  target: z.string().regex(/^[a-z0-9]+-[a-z0-9]+$/),
  goos: z.enum(['linux', 'darwin']),
  goarch: z.enum(['amd64', 'arm64']),
  bun_target: z.string().startsWith('bun-'),
  binary: z.string().regex(/^bin\/[a-z0-9-]+\/botbuddy$/),
  mode: z.literal('0755'),
});
type Target = z.infer<typeof Target>;

const Package = z.object({ version: z.string(), devDependencies: z.object({ bun: z.string() }) });

const Commit = z.string().regex(/^[0-9a-f]{40}$/);
const Digest = z.string().regex(/^[0-9a-f]{64}$/);
const BuiltTarget = Target.pick({ goos: true, goarch: true, binary: true, mode: true }).extend({ sha256: Digest });
const Manifest = z.strictObject({
  schema_version: z.literal(1),
  release_version: z.string(),
  source_commit: Commit,
  source_sha256: Digest,
  targets: z.record(z.string(), BuiltTarget),
});
type Manifest = z.infer<typeof Manifest>;

class BuildError extends Error {}

function build(argv: string[]): void {
  const { values } = parseArgs({ args: argv, options: { target: { type: 'string', multiple: true } } });
  const targets = chooseTargets(readTargets(), values.target ?? []);
  const source = readSource();
  for (const target of targets) {
    const sha256 = compile(target, source);
    record(target, sha256, source);
    console.log(`${target.binary} ${sha256}`);
  }
}

function readTargets(): Target[] {
  const directory = join(ROOT, 'dist-targets');
  return readdirSync(directory)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => {
      const target = parsed(Target, join(directory, name));
      const expected = `bin/${target.target}/${PROGRAM}`;
      if (`${target.target}.json` !== name || target.binary !== expected) {
        throw new BuildError(
          `dist-targets/${name}: names another target than its file, or a binary not at ${expected}`,
        );
      }
      return target;
    });
}

function chooseTargets(known: Target[], wanted: string[]): Target[] {
  if (wanted.length === 0) return known;
  return wanted.map((name) => {
    const target = known.find((candidate) => candidate.target === name);
    if (target !== undefined) return target;
    throw new BuildError(`no target ${name}; known: ${known.map((candidate) => candidate.target).join(', ')}`);
  });
}

interface Source {
  release_version: string;
  source_commit: string;
  source_sha256: string;
}

function readSource(): Source {
  const project = parsed(Package, join(ROOT, 'package.json'));
  if (Bun.version !== project.devDependencies.bun) {
    throw new BuildError(`this is Bun ${Bun.version}; the build needs ${project.devDependencies.bun} (npm run build)`);
  }
  const source_commit = git('rev-parse', '--verify', 'HEAD').trim();
  if (git('status', '--porcelain') !== '') {
    console.error(`warning: the working tree differs from ${source_commit}; source_sha256 is that of the tree`);
  }
  return { release_version: project.version, source_commit, source_sha256: sourceDigest() };
}

/** SHA-256 of one line a tracked file, sorted by path: `MODE SHA256 PATH`, as git writes modes and the tree has contents. */
function sourceDigest(): string {
  const paths = git('ls-files', '-z')
    .split('\0')
    .filter((path) => path !== '' && lstatSync(join(ROOT, path), { throwIfNoEntry: false }) !== undefined)
    .map((path) => Buffer.from(path))
    .sort(Buffer.compare)
    .map(String);
  return sha256(paths.map((path) => `${modeAndDigest(join(ROOT, path))} ${path}\n`).join(''));
}

function modeAndDigest(path: string): string {
  const stats = lstatSync(path);
  if (stats.isSymbolicLink()) return `120000 ${sha256(readlinkSync(path))}`;
  return `${(stats.mode & 0o100) === 0 ? '100644' : '100755'} ${sha256(readFileSync(path))}`;
}

/** Builds into an empty directory, so that a file there is a fresh one, and moves it into place when it is right. */
function compile(target: Target, source: Source): string {
  const final = join(DIST, target.binary);
  const fresh = join(DIST, `fresh-${target.target}-${process.pid}`);
  mkdirSync(fresh, { recursive: true });
  try {
    const built = join(fresh, PROGRAM);
    runCompiler(target, source, built);
    checkFormat(target, built);
    chmodSync(built, Number.parseInt(target.mode, 8));
    checkStart(target, source, built);
    linkSync(built, join(fresh, SHORT_NAME));
    mkdirSync(dirname(final), { recursive: true });
    renameSync(built, final);
    renameSync(join(fresh, SHORT_NAME), join(dirname(final), SHORT_NAME));
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return sha256(readFileSync(final));
}

function runCompiler(target: Target, source: Source, outfile: string): void {
  const define = (name: string, value: string) => ['--define', `${name}=${JSON.stringify(value)}`];
  const argv = [
    ...['build', '--compile', '--production', '--bytecode', '--format=esm', '--splitting'],
    ...['--no-compile-autoload-dotenv', '--no-compile-autoload-bunfig', `--target=${target.bun_target}`],
    ...define('BUILD_VERSION', source.release_version),
    ...define('BUILD_COMMIT', source.source_commit),
    ...define('BUILD_TARGET', target.target),
    ...['src/main.ts', '--outfile', outfile],
  ];
  const result = run(process.execPath, argv);
  if (result.exitCode === 0 && existsSync(outfile)) return;
  throw new BuildError(
    `${target.target}: the compiler made no binary (exit code ${result.exitCode}).\n${result.output}\n` +
      `A target other than this machine's needs its runtime, the npm package for ${target.bun_target}, from the registry.`,
  );
}

const ELF_MACHINES = { amd64: 62, arm64: 183 } as const;
const MACHO_CPUS = { amd64: 0x01000007, arm64: 0x0100000c } as const;
const MACHO_64_MAGIC = 0xfeedfacf;

function checkFormat(target: Target, path: string): void {
  const head = new DataView(readFileSync(path).buffer, 0, 64);
  const isElf = head.getUint32(0) === 0x7f454c46 && head.getUint8(4) === 2;
  const right =
    target.goos === 'linux'
      ? isElf && head.getUint16(18, true) === ELF_MACHINES[target.goarch]
      : head.getUint32(0, true) === MACHO_64_MAGIC && head.getUint32(4, true) === MACHO_CPUS[target.goarch];
  if (!right) throw new BuildError(`${target.target}: the result is no ${target.goos}/${target.goarch} program`);
}

/** A program whose bytecode step failed compiles without an error and dies at its start. */
function checkStart(target: Target, source: Source, path: string): void {
  const hostArch = process.arch === 'x64' ? 'amd64' : process.arch;
  if (target.goos !== process.platform || target.goarch !== hostArch) return;
  const result = run(path, ['--version']);
  if (result.exitCode === 0 && result.output.includes(source.release_version)) return;
  throw new BuildError(`${target.target}: --version ends with ${result.exitCode}: ${result.output.slice(0, 2000)}`);
}

function record(target: Target, digest: string, source: Source): void {
  const { goos, goarch, binary, mode } = target;
  const manifest = manifestOf(source);
  manifest.targets[target.target] = { goos, goarch, binary, sha256: digest, mode };
  manifest.targets = Object.fromEntries(Object.entries(manifest.targets).sort());
  mkdirSync(RELEASE, { recursive: true });
  replaceJson(join(RELEASE, `${target.target}.json`), { ...source, target: target.target, sha256: digest });
  replaceJson(join(RELEASE, 'manifest.json'), manifest);
}

/** The manifest to add to: what was built from the same source, or an empty one. */
function manifestOf(source: Source): Manifest {
  const path = join(RELEASE, 'manifest.json');
  const before = existsSync(path) ? Manifest.safeParse(JSON.parse(readFileSync(path, 'utf8'))).data : undefined;
  const same =
    before?.release_version === source.release_version &&
    before.source_commit === source.source_commit &&
    before.source_sha256 === source.source_sha256;
  if (before !== undefined && same) return before;
  rmSync(RELEASE, { recursive: true, force: true });
  return { schema_version: 1, ...source, targets: {} };
}

function replaceJson(path: string, value: unknown): void {
  writeFileSync(`${path}.tmp`, `${JSON.stringify(value, null, 2)}\n`);
  renameSync(`${path}.tmp`, path);
}

function parsed<T>(schema: z.ZodType<T>, path: string): T {
  const result = schema.safeParse(JSON.parse(readFileSync(path, 'utf8')));
  if (result.success) return result.data;
  throw new BuildError(`${path}: ${z.prettifyError(result.error)}`);
}

function git(...argv: string[]): string {
  const result = run('git', ['-C', ROOT, ...argv]);
  if (result.exitCode === 0) return result.output;
  throw new BuildError(`git ${argv[0]} ends with ${result.exitCode} (a build needs a git checkout): ${result.output}`);
}

function run(command: string, argv: string[]): { exitCode: number; output: string } {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BUN_'));
  const result = Bun.spawnSync([command, ...argv], {
    cwd: ROOT,
    env: Object.fromEntries(inherited),
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const failed = result.exitCode !== 0;
  return { exitCode: result.exitCode, output: `${result.stdout}${failed ? result.stderr : ''}` };
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

try {
  build(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof BuildError || error instanceof TypeError ? `build: ${error.message}` : error);
  process.exitCode = 1;
}
