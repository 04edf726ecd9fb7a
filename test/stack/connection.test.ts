import { describe, expect, test } from 'bun:test';
import { parseStackConfig } from '../../src/stack/config-file.ts';
import {
  childEnvironment,
  connectionFileOf,
  connectionOf,
  exportLines,
  readConnectionFile,
  renderService,
  serviceEnvironment,
  stackVariables,
  writeConnectionFile,
} from '../../src/stack/connection.ts';
import { makePlan } from '../../src/stack/plan.ts';
import { slotOf, slotPaths } from '../../src/stack/slot.ts';
import { makeTempDir } from '../support/temp-home.ts';

const slot = slotOf({ tenant: 'local', gitCommonDir: '/r/.git', worktreeRoot: '/r' });

function planFor(toml: string, slotDir = '/h/stacks/s') {
  const config = parseStackConfig(`[stack]\ndriver = "process"\n${toml}`, 'f');
  return makePlan({
    config,
    slot,
    slotDir,
    worktreeRoot: '/r',
    stackDir: '/r',
    blocks: [{ port_base: 20_000, size: 20 }],
  });
}

const PLAN = planFor(`ports = ["db", "web-ui"]
[stack.service.web]
command = ["serve", "{port.web-ui}", "{{port.web-ui}}", "{}", '{"a":1}']
ready = { http = "http://user:secret@{host}:{port.web-ui}/health?token=secret" }
cwd = "services/{lease}"
[stack.env]
URL = "postgres://u:p@{host}:{port.db}/{project}"
DIR = "{dir}"
LEASE = "{lease}"`);

describe('a connection', () => {
  test('holds host, ports and addresses, and nothing secret', () => {
    const connection = connectionOf(PLAN, 'L');
    expect(connection).toEqual({
      host: '127.0.0.1',
      ports: { db: 20_000, 'web-ui': 20_001 },
      urls: { web: 'http://127.0.0.1:20001' },
    });
    expect(JSON.stringify(connection)).not.toContain('secret');
  });

  test('takes the name of a port for the address of a service', () => {
    const plan = planFor('ports = ["web"]\n[stack.service.web]\ncommand = ["x"]\nready = { http = "web" }');
    expect(connectionOf(plan, 'L').urls).toEqual({ web: 'http://127.0.0.1:20000' });
  });

  test('file is read back for its lease only', () => {
    using temp = makeTempDir();
    const plan = planFor('ports = ["db"]', temp.path);
    writeConnectionFile(slotPaths(temp.path).connection, connectionFileOf(plan, 'L'));
    expect(readConnectionFile(temp.path, 'L')).toMatchObject({ ports: { db: 20_000 }, project: slot.project });
    expect(readConnectionFile(temp.path, 'M')).toBeNull();
  });
});

describe('variables', () => {
  const variables = stackVariables(PLAN, 'L', '/c.json');

  test('are built from the plan', () => {
    expect(variables).toEqual({
      URL: `postgres://u:p@127.0.0.1:20000/${slot.project}`,
      DIR: '/h/stacks/s/data',
      LEASE: 'L',
      BOTBUDDY_PORT_DB: '20000',
      BOTBUDDY_PORT_WEB_UI: '20001',
      BOTBUDDY_LEASE_ID: 'L',
      BOTBUDDY_STACK_PROJECT: slot.project,
      BOTBUDDY_CONNECTION_FILE: '/c.json',
    });
  });

  test('that are claimed are never inherited by the child, secrets neither', () => {
    const inherited = {
      KEEP: '1',
      URL: 'main',
      BOTBUDDY_PORT_OLD: '1',
      BOTBUDDY_LEASE_ID: 'old',
      BOTBUDDY_REAP_MARK: 'old',
      BOTBUDDY_AGENT_SESSION_TOKEN: 'secret',
      BOTBUDDY_PORT_RANGE: '20000-20100',
    };
    expect(childEnvironment(inherited, variables, 'L')).toEqual({
      KEEP: '1',
      BOTBUDDY_PORT_RANGE: '20000-20100',
      ...variables,
      BOTBUDDY_REAP_MARK: 'L',
    });
  });

  test('of a service are exactly the passed ones and the built ones', () => {
    expect(serviceEnvironment({ PATH: '/bin' }, { A: '1' }, 'L')).toEqual({
      PATH: '/bin',
      A: '1',
      BOTBUDDY_REAP_MARK: 'L',
    });
  });

  test('never print the mark', () => expect(exportLines(variables)).not.toContain('BOTBUDDY_REAP_MARK'));

  test('survive a shell byte for byte', async () => {
    const values = { A: `it's "quoted" $HOME \`x\` \\ \n 🙂`, B: '' };
    const shell = Bun.spawn(['sh', '-c', `eval "$1"; printf '%s|%s' "$A" "$B"`, 'sh', exportLines(values)], {
      stdout: 'pipe',
    });
    expect(await shell.stdout.text()).toBe(`${values.A}|`);
  });
});

test('a service is rendered with its directory inside the worktree, and other braces are kept', () => {
  const [service] = PLAN.services;
  if (service === undefined) throw new Error('no service');
  expect(renderService(PLAN, service, 'L')).toEqual({
    prepare: [],
    command: ['serve', '20001', '{port.web-ui}', '{}', '{"a":1}'],
    cwd: '/r/services/L',
  });
});
