import { describe, expect, test } from 'bun:test';
import { unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { openClient, settingDifferences } from '../../src/client/open-client.ts';
import { Failure } from '../../src/platform/failure.ts';
import { ownIdentity, spawnChild } from '../../src/platform/processes.ts';
import { VERSION_HEADER } from '../../src/protocol/version.ts';
import {
  endlessBody,
  halfABody,
  hang,
  makeStandIn,
  nonsense,
  ok,
  type Reply,
  refuse,
  writeOwner,
} from './_stand-in.ts';

const CANCEL = { wait_session_id: 'w', idempotency_key: 'k1' };
const CLAIM = { job_id: 'j', host_id: 'h', incarnation: 'i' };

async function failureOf(call: Promise<unknown>): Promise<Failure> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Failure)) throw new Error('the call did not fail as a Failure', { cause: error });
  return error;
}

describe('a call', () => {
  test('bears the credential and the highest event that any answer showed', async () => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', ok({ hosts: [] }, 41), ok({ hosts: [] }, 7), ok({ hosts: [] }, 7));
    for (let round = 0; round < 3; round += 1) expect(await stand.client.call('list_hosts', {})).toEqual({ hosts: [] });
    expect(stand.seen.map(({ headers }) => headers.get('x-botbuddy-seen-seq'))).toEqual(['0', '41', '41']);
    expect(stand.seen[0]?.headers.get('authorization')).toBe('Bearer bbo_first');
  });

  test('that is refused throws the code, the words and the fields of the refusal, and is not repeated', async () => {
    await using stand = await makeStandIn();
    stand.script('get_stack_lease', refuse(404, 'LEASE_NOT_FOUND', { lease_id: 'x' }));
    const failure = await failureOf(stand.client.call('get_stack_lease', { lease_id: 'x' }));
    expect(failure).toMatchObject({
      code: 'LEASE_NOT_FOUND',
      message: 'no: LEASE_NOT_FOUND',
      fields: { lease_id: 'x' },
    });
    expect(stand.seen).toHaveLength(1);
  });

  test('is repeated under the same key where the outcome says so, and where the answer was lost', async () => {
    await using stand = await makeStandIn();
    stand.script('cancel_wait', refuse(503, 'overloaded'), halfABody, nonsense, ok({ status: 'ended' }));
    await stand.client.call('cancel_wait', CANCEL);
    expect(stand.seen.map(({ args }) => args['idempotency_key'])).toEqual(['k1', 'k1', 'k1', 'k1']);
  });

  test('that must happen once is not repeated when nobody knows whether it arrived', async () => {
    await using stand = await makeStandIn();
    stand.script('claim_job', halfABody);
    const failure = await failureOf(stand.client.call('claim_job', CLAIM));
    expect(failure).toMatchObject({ code: 'platform_unreachable', fields: { tool: 'claim_job', applied: 'unknown' } });
    expect(stand.seen).toHaveLength(1);
  });

  test.each([
    ['a body that does not end', endlessBody],
    ['no answer at all', hang],
  ])('has a deadline that covers %s', async (_name, reply: Reply) => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', reply);
    const failure = await failureOf(stand.client.call('list_hosts', {}, { timeoutMs: 150 }));
    expect(failure.code).toBe('platform_unreachable');
  });

  test('ends at once when its caller is interrupted', async () => {
    await using stand = await makeStandIn();
    const abort = new AbortController();
    stand.script('list_hosts', (seen, signal) => {
      abort.abort();
      return hang(seen, signal);
    });
    expect((await failureOf(stand.client.call('list_hosts', {}, { signal: abort.signal }))).code).toBe('interrupted');
  });

  test('takes nothing for an answer that does not come from a coordinator', async () => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', () => Response.json({ ok: true, seq: 1, result: { hosts: [] } }));
    const failure = await failureOf(stand.client.call('list_hosts', {}, { timeoutMs: 1_500 }));
    expect(failure).toMatchObject({ code: 'platform_unreachable', message: 'what answered (200) is no coordinator' });
  });

  test('goes through the socket, and over TCP when there is none', async () => {
    await using both = await makeStandIn({ socket: true });
    both.script('list_hosts', ok({ hosts: [] }));
    both.discovery({ url: 'http://127.0.0.1:1' });
    expect(await both.client.call('list_hosts', {})).toEqual({ hosts: [] });
    both.discovery();
    unlinkSync(join(both.home, 'c.sock'));
    const other = await openClient({ home: both.home, environment: {}, mayStart: () => false });
    expect(await other.call('list_hosts', {})).toEqual({ hosts: [] });
  });
});

describe('a rejected credential', () => {
  test('is read again once, and all later calls bear the newer one', async () => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', (seen, signal) => {
      const isKnown = seen.headers.get('authorization') === 'Bearer bbo_second';
      return (isKnown ? ok({ hosts: [] }) : refuse(401, 'unauthenticated'))(seen, signal);
    });
    expect((await failureOf(stand.client.call('list_hosts', {}))).code).toBe('unauthenticated');
    expect(stand.seen).toHaveLength(1);
    writeOwner(stand.home, 'bbo_second');
    await stand.client.call('list_hosts', {});
    await stand.client.call('list_hosts', {});
    expect(stand.seen).toHaveLength(4);
  });

  test('that was made for another server is not sent at all', async () => {
    await using stand = await makeStandIn();
    writeOwner(stand.home, 'bbo_first', 'https://elsewhere');
    stand.script('list_hosts', ok({ hosts: [] }));
    await stand.client.call('list_hosts', {});
    expect(stand.seen[0]?.headers.get('authorization')).toBeNull();
  });

  test('given by the environment goes to the named server, and the owner credential never does', async () => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', ok({ hosts: [] }));
    const environment = { BOTBUDDY_SERVER_URL: stand.url, BOTBUDDY_AGENT_SESSION_TOKEN: 'bbs_given' };
    const named = await openClient({ home: stand.home, environment });
    await named.call('list_hosts', {});
    const { BOTBUDDY_SERVER_URL } = environment;
    const bare = await openClient({ home: stand.home, environment: { BOTBUDDY_SERVER_URL } });
    await bare.call('list_hosts', {});
    expect(stand.seen.map(({ headers }) => headers.get('authorization'))).toEqual(['Bearer bbs_given', null]);
  });
});

describe('a coordinator that is not there', () => {
  test('although a discovery file names a dead process is not waited for', async () => {
    await using stand = await makeStandIn();
    const child = spawnChild({ argv: [process.execPath, '-e', '0'], cwd: stand.home, env: {}, stdout: 'ignore' });
    const dead = { ...ownIdentity(), ...child.identity, started_at: `${child.identity.started_at}0` };
    await child.exited;
    stand.discovery({ identity: dead });
    const failure = await failureOf(stand.client.call('list_hosts', {}));
    expect(failure).toMatchObject({ code: 'platform_unreachable', message: 'no coordinator runs here' });
    expect(stand.seen).toEqual([]);
  });

  test('since its process is stopped is said within two seconds: path, owner, age, repair', async () => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', hang);
    stand.script('healthz', hang);
    const argv = [process.execPath, '-e', 'setInterval(() => {}, 1000)'];
    const stopped = spawnChild({ argv, cwd: stand.home, env: {}, stdout: 'ignore' });
    process.kill(stopped.identity.pid, 'SIGSTOP');
    stand.discovery({ identity: stopped.identity, started_at: new Date(Date.now() - 65_000).toISOString() });
    const before = performance.now();
    const failure = await failureOf(stand.client.call('list_hosts', {}));
    expect(performance.now() - before).toBeLessThan(2_000);
    expect(failure.code).toBe('platform_unreachable');
    expect(failure.message).toContain(join(stand.home, 'c.sock'));
    expect(failure.message).toContain(`kill -9 ${stopped.identity.pid}`);
    expect(failure.message).toMatch(/started 6\d s ago\) is stopped/);
    process.kill(stopped.identity.pid, 'SIGKILL');
    await stopped.exited;
  });

  test('for a while, although its process runs, is told and waited for', async () => {
    await using stand = await makeStandIn();
    const notices: string[] = [];
    const gate = Promise.withResolvers<void>();
    stand.script('list_hosts', async (seen, signal) => {
      await gate.promise;
      return ok({ hosts: [] })(seen, signal);
    });
    stand.script('healthz', hang);
    const onNotice = (notice: string) => {
      notices.push(notice);
      gate.resolve();
    };
    const client = await openClient({ home: stand.home, environment: {}, onNotice });
    expect(await client.call('list_hosts', {})).toEqual({ hosts: [] });
    expect(notices).toHaveLength(1);
    expect(notices[0]).toContain(`pid ${process.pid}`);
  });

  test('at the address that it names is said within two seconds', async () => {
    await using stand = await makeStandIn();
    stand.discovery({ url: 'http://127.0.0.1:1' });
    const before = performance.now();
    const failure = await failureOf(stand.client.call('list_hosts', {}));
    expect(performance.now() - before).toBeLessThan(2_000);
    expect(failure).toMatchObject({ code: 'platform_unreachable', fields: { applied: 'no' } });
    expect(failure.message).toContain(`pid ${process.pid}`);
  });

  test('that is slow but lives is waited for', async () => {
    await using stand = await makeStandIn();
    const gate = Promise.withResolvers<void>();
    stand.script('list_hosts', async (seen, signal) => {
      await gate.promise;
      return ok({ hosts: [] })(seen, signal);
    });
    stand.script('healthz', (seen, signal) => {
      gate.resolve();
      return ok({})(seen, signal);
    });
    expect(await stand.client.call('list_hosts', {})).toEqual({ hosts: [] });
  });
});

describe('versions', () => {
  test('that cannot work together are refused, naming the one to update', async () => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', saying('0.2.1'));
    for (const [version, older] of [
      ['0.3.0', 'the coordinator'],
      ['0.1.9', 'this botbuddy'],
    ]) {
      const client = await openClient({ home: stand.home, environment: {}, version: version as string });
      const failure = await failureOf(client.call('list_hosts', {}));
      expect(failure.code).toBe('version_mismatch');
      expect(failure.message).toContain(`update ${older}`);
    }
    expect(stand.seen).toHaveLength(2);
  });

  test('that differ in what the wire does not show work together', async () => {
    await using stand = await makeStandIn();
    stand.script('list_hosts', saying('0.2.1'));
    const client = await openClient({ home: stand.home, environment: {}, version: '0.2.9' });
    expect(await client.call('list_hosts', {})).toEqual({ hosts: [] });
  });
});

const saying =
  (version: string): Reply =>
  async (seen, signal) => {
    const response = await ok({ hosts: [] })(seen, signal);
    response.headers.set(VERSION_HEADER, version);
    return response;
  };

test('settings that differ from those of the running coordinator are told', async () => {
  await using stand = await makeStandIn();
  const environment = { BOTBUDDY_LEASE_TTL_SECS: '5' };
  stand.discovery({ settings: { lease_ttl_secs: '60' } });
  const differences = settingDifferences({ home: stand.home, environment });
  expect(differences).toContainEqual({ setting: 'lease_ttl_secs', running: '60', wanted: '5' });
});
