import { join } from 'node:path';

export interface ScriptResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
}

/** `import { names } from module` for a script that runs in a process of its own. */
export function importing(names: string, module: string): string {
  return `import { ${names} } from ${JSON.stringify(join(import.meta.dirname, '../../src/platform', module))};\n`;
}

/** Runs TypeScript in a fresh process whose streams are pipes. */
export async function runScript(script: string, env: Record<string, string> = {}): Promise<ScriptResult> {
  const child = Bun.spawn([process.execPath, '-e', script], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  return { stdout, stderr, exitCode: child.exitCode };
}
