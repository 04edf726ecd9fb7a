import { join } from 'node:path';

const SERVICE = join(import.meta.dir, '../fixtures/services/tell-who.mjs');

/** The runtime that runs the tests, as a program that a stack may start. */
const RUNTIME = process.execPath;

export const EMPTY_STACK = '[stack]\ndriver = "process"\n';

/** One HTTP service that tells its worktree and keeps notes in its data directory. */
export const WEB_STACK = `
[stack]
driver = "process"
ports = ["web"]

[stack.service.web]
command = [${JSON.stringify(RUNTIME)}, ${JSON.stringify(SERVICE)}, "{port.web}", "{dir}"]
ready   = { http = "web", timeout = "20s" }
stop    = { signal = "SIGTERM", grace = "5s" }

[stack.env]
WEB_URL = "http://127.0.0.1:{port.web}"
`;

/** A command that runs `script` as a module of the test runtime. */
export const script = (text: string): string[] => [RUNTIME, '-e', text];

/** Holds until the file appears: a child whose end the test decides. */
export const holdUntil = (file: string): string[] => ['sh', '-c', `while [ ! -e '${file}' ]; do sleep 0.05; done`];
