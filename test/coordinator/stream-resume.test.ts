import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { newId } from '../../src/platform/random.ts';
import { eventually } from '../support/eventually.ts';
import { FakeHelper, type Harness, leaseArgs, makeHarness, releaseArgs, waitArgs } from './harness.ts';

let harness: Harness;

beforeEach(async () => {
  harness = await makeHarness();
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

const head = (): string => `${harness.parts.engine.epoch}.${harness.parts.engine.state.seq}`;

/** A queued lease and an open wait for it. */
async function waiting(conditionState = '', slot = 'a'): Promise<{ leaseId: string; waitId: string; cursor: string }> {
  const { lease } = await harness.call('request_stack_lease', leaseArgs(slot));
  const suffix = conditionState === '' ? '' : `,state=${conditionState}`;
  const view = await harness.call('wait', waitArgs([`lease:id=${lease.lease_id}${suffix}`]));
  return { leaseId: lease.lease_id, waitId: view.wait_session_id, cursor: view.cursor };
}

describe('resuming', () => {
  test('between registration and stream nothing falls, whenever the event came', async () => {
    const { leaseId, waitId, cursor } = await waiting('active');
    const helper = await new FakeHelper(harness).start(1);
    using first = await harness.stream(`wait=${waitId}`, cursor);
    expect(await first.next('lease')).toMatchObject({ lease: { state: 'provisioning' } });
    const seen = first.lastEventId() ?? '';
    first[Symbol.dispose]();
    await helper.activate(leaseId);
    using second = await harness.stream(`wait=${waitId}`, seen);
    expect(await second.next('wait_ended')).toMatchObject({ ended: { outcome: 'matched' } });
  });

  test.each([
    ['of another epoch', () => `${newId()}.1`],
    ['beyond the head', () => `${harness.parts.engine.epoch}.999`],
    ['that is no cursor', () => 'nonsense'],
  ])('a cursor %s is answered with a snapshot and goes on from there', async (_what, cursor) => {
    const { leaseId, waitId } = await waiting();
    using stream = await harness.stream(`wait=${waitId}`, cursor());
    expect(await stream.next('cursor_expired')).toMatchObject({
      cursor: head(),
      wait: { status: 'pending', ended: null },
      leases: [{ lease_id: leaseId, state: 'queued' }],
    });
    await harness.call('release_stack_lease', releaseArgs(leaseId));
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'lease_lost' } });
  });

  test('a cursor older than what is kept is answered with a snapshot; the oldest kept one is not', async () => {
    const { waitId, leaseId } = await waiting();
    await harness.call('touch_stack_lease', { lease_id: leaseId, fencing_token: null });
    const { seq } = harness.parts.engine.state;
    await harness.parts.log.snapshot(seq, {});
    await harness.parts.log.prune(seq);
    const { epoch } = harness.parts.engine;
    using old = await harness.stream(`wait=${waitId}`, `${epoch}.${seq - 2}`);
    expect((await old.next('cursor_expired')).leases).toHaveLength(1);
    using kept = await harness.stream(`wait=${waitId}`, `${epoch}.${seq - 1}`);
    await kept.next('lease');
    expect(kept.frames.map(({ type }) => type)).toEqual(['open', 'lease']);
  });

  test('an expired cursor of a wait that ended gets the outcome too', async () => {
    const { leaseId, waitId } = await waiting();
    await harness.call('release_stack_lease', releaseArgs(leaseId));
    using stream = await harness.stream(`wait=${waitId}`, `${newId()}.1`);
    expect(await stream.next('cursor_expired')).toMatchObject({
      wait: { status: 'ended', ended: { outcome: 'lease_lost' } },
    });
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'lease_lost' } });
  });

  test('no outcome is missed by readers that are cut at any moment', async () => {
    const helper = await new FakeHelper(harness).start(6);
    const outcomes = await Promise.all(
      Array.from({ length: 24 }, async (_, n) => {
        const { leaseId, waitId, cursor } = await waiting('active', `slot-${n}`);
        const life = (async () => {
          await eventually(`lease ${n} is granted`, async () => {
            const { lease } = await harness.call('get_stack_lease', { lease_id: leaseId });
            return lease.state === 'provisioning';
          });
          await helper.activate(leaseId);
          await harness.call('release_stack_lease', releaseArgs(leaseId));
          await helper.reap(leaseId);
        })();
        const outcome = await followWithCuts(waitId, cursor);
        await life;
        return outcome;
      }),
    );
    expect(outcomes).toEqual(Array.from({ length: 24 }, () => 'matched'));
  });

  /** Cuts its own connection after a random time, again and again, until it was told how the wait ended. */
  async function followWithCuts(waitId: string, cursor: string): Promise<string> {
    let last = cursor;
    for (;;) {
      using stream = await harness.stream(`wait=${waitId}`, last);
      const cut = setTimeout(() => stream[Symbol.dispose](), Math.random() * 12);
      try {
        return (await stream.next('wait_ended')).ended.outcome;
      } catch {
        last = stream.lastEventId() ?? last;
      } finally {
        clearTimeout(cut);
      }
    }
  }
});
