import { describe, expect, test } from 'bun:test';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeTempDir } from '../support/temp-home.ts';
import { ROOT } from './tracked-files.ts';

const TIMEOUT_MS = 60_000;
const HOST = {
  target: `${process.platform}-${process.arch}`,
  goos: process.platform,
  goarch: process.arch === 'x64' ? 'amd64' : process.arch,
  bun_target: `bun-${process.platform}-${process.arch}`,
  mode: '0755',
};
const TWIN = `${process.platform}-twin`;
/** The digest of the tracked tree as anybody can recompute it with the tools of a plain system. */
const RECOMPUTE = `git ls-files | LC_ALL=C sort | while read -r path; do
  if [ -x "$path" ]; then mode=100755; else mode=100644; fi
  printf '%s %s %s\\n' "$mode" "$(sha256sum <"$path" | cut -d' ' -f1)" "$path"
done | sha256sum | cut -d' ' -f1`;

describe.if(process.platform === 'linux')('a build', () => {
  test(
    'makes a program under two names and records what it is and what it was made of',
    () => {
      using project = makeProject();
      expect(project.build('--target', HOST.target)).toMatchObject({ exitCode: 0 });
      const binary = join(project.path, 'dist', project.manifest().targets[HOST.target]?.binary ?? '');
      expect(project.run(binary, '--version').stdout).toBe(`1.2.3 ${project.commit()} ${HOST.target}\n`);
      expect(statSync(binary).mode & 0o7777).toBe(0o755);
      expect(statSync(join(binary, '..', 'bb')).ino).toBe(statSync(binary).ino);
      const digest = project.run('sha256sum', binary).stdout.slice(0, 64);
      const source = {
        release_version: '1.2.3',
        source_commit: project.commit(),
        source_sha256: project.run('sh', '-c', RECOMPUTE).stdout.trim(),
      };
      const { target, bun_target: _, ...rest } = HOST;
      const entry = { ...rest, binary: `bin/${target}/botbuddy`, sha256: digest };
      expect(project.json('dist/release/manifest.json')).toEqual({
        schema_version: 1,
        ...source,
        targets: { [target]: entry },
      });
      expect(project.json(`dist/release/${target}.json`)).toEqual({ ...source, target, sha256: digest });
    },
    TIMEOUT_MS,
  );

  test(
    'of another target adds to the manifest, of another source it replaces it; the same source gives the same bytes',
    () => {
      using project = makeProject();
      project.build('--target', HOST.target);
      const first = project.manifest();
      project.build('--target', TWIN);
      expect(Object.keys(project.manifest().targets)).toEqual([TWIN, HOST.target].sort());
      project.build();
      expect(project.manifest().targets[HOST.target]).toEqual(first.targets[HOST.target] as never);
      project.write('notes', 'one more tracked file\n');
      project.commitAll();
      project.build('--target', TWIN);
      expect(Object.keys(project.manifest().targets)).toEqual([TWIN]);
      expect(project.manifest().source_sha256).not.toBe(first.source_sha256);
      expect(existsSync(join(project.path, 'dist', 'release', `${HOST.target}.json`))).toBeFalse();
    },
    TIMEOUT_MS,
  );

  test(
    'that fails says why and leaves the program that was there',
    () => {
      using project = makeProject();
      project.build('--target', HOST.target);
      const binary = join(project.path, 'dist', 'bin', HOST.target, 'botbuddy');
      const before = readFileSync(binary);
      for (const [text, reason] of [
        ['const = ;', 'made no binary'],
        ["throw new Error('dies at its start');", 'dies at its start'],
        ['console.log("0.0.0");', '--version'],
      ] as const) {
        project.write('src/main.ts', text);
        const result = project.build('--target', HOST.target);
        expect(result.exitCode).toBe(1);
        expect(result.stderr).toContain(reason);
        expect(readFileSync(binary).equals(before)).toBeTrue();
        expect(readdirSync(join(project.path, 'dist')).sort()).toEqual(['bin', 'release']);
        expect(project.run('git', 'status', '--porcelain').stdout).toBe(' M src/main.ts\n');
      }
    },
    TIMEOUT_MS,
  );

  test('refuses an unknown target, a wrong architecture and a target file that it does not understand', () => {
    using project = makeProject();
    expect(project.build('--target', 'plan9-x64')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(TWIN),
    });
    expect(project.build('--taget', 'x').exitCode).toBe(1);
    const other = HOST.goarch === 'amd64' ? 'arm64' : 'amd64';
    project.writeTarget(TWIN, { goarch: other });
    expect(project.build('--target', TWIN).stderr).toContain(`no linux/${other} program`);
    project.writeTarget(TWIN, { mode: '0777' });
    expect(project.build().stderr).toContain('mode');
    project.writeTarget(TWIN, { extra: 1 });
    expect(project.build().stderr).toContain('extra');
    project.writeTarget(TWIN, { binary: 'bin/elsewhere/botbuddy' });
    expect(project.build().stderr).toContain(`${TWIN}.json`);
    expect(existsSync(join(project.path, 'dist', 'bin'))).toBeFalse();
  });
});

interface Manifest {
  source_sha256: string;
  targets: Record<string, { binary: string }>;
}

/** A repository with a program of one line, the build of this one, and two targets that run here. */
function makeProject() {
  const directory = makeTempDir();
  const { path } = directory;
  const run = (command: string, ...argv: string[]) => {
    const result = Bun.spawnSync([command, ...argv], { cwd: path, env: { ...process.env, HOME: path } });
    return { exitCode: result.exitCode, stdout: result.stdout.toString(), stderr: result.stderr.toString() };
  };
  const write = (name: string, text: string) => writeFileSync(join(path, name), text);
  const writeTarget = (target: string, rest: Record<string, unknown> = {}) => {
    const record = { ...HOST, target, binary: `bin/${target}/botbuddy`, ...rest };
    write(`dist-targets/${target}.json`, JSON.stringify(record));
  };
  const commitAll = () => {
    run('git', 'add', '-A');
    run('git', '-c', 'user.name=t', '-c', 'user.email=t@example.invalid', 'commit', '-q', '-m', 'all');
  };
  for (const name of ['src', 'dist-targets']) mkdirSync(join(path, name));
  copyFileSync(join(ROOT, 'build.ts'), join(path, 'build.ts'));
  symlinkSync(join(ROOT, 'node_modules'), join(path, 'node_modules'));
  write('.gitignore', 'node_modules\ndist\n.bun\n');
  write('package.json', JSON.stringify({ version: '1.2.3', type: 'module', devDependencies: { bun: Bun.version } }));
  write('src/main.ts', 'console.log(BUILD_VERSION, BUILD_COMMIT, BUILD_TARGET);\n');
  writeTarget(HOST.target);
  writeTarget(TWIN);
  run('git', 'init', '-q');
  commitAll();
  const json = (name: string): unknown => JSON.parse(readFileSync(join(path, name), 'utf8'));
  return {
    path,
    run,
    write,
    writeTarget,
    commitAll,
    json,
    build: (...argv: string[]) => run(process.execPath, 'build.ts', ...argv),
    manifest: () => json('dist/release/manifest.json') as Manifest,
    commit: () => run('git', 'rev-parse', 'HEAD').stdout.trim(),
    [Symbol.dispose]: () => directory[Symbol.dispose](),
  };
}
