import { describe, expect, test } from 'bun:test';
import { CoordinatorClock } from '../../src/coordinator/coordinator-clock.ts';
import { ENGINE_BOUNDS, Engine, Settled } from '../../src/coordinator/engine.ts';
import { MemoryDisk, MemoryLog } from '../../src/log/memory-log.ts';
import { newId } from '../../src/platform/random.ts';
import { eventually } from '../support/eventually.ts';
import { ask, BY, expectFolded, Faulty, nobody, open, register } from './_faulty-engine.ts';

describe('group commit', () => {
  test('inputs that arrive together are one transaction, in their order', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => ask(engine, `s${n}`)));
    expect(faulty.batches).toHaveLength(1);
    expect(faulty.batches[0]?.events.map(({ seq }) => seq)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
    expect(answers.every((answer) => answer.ok && answer.seq === 50)).toBe(true);
  });

  test('a batch is bounded and the rest comes in the next one', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const count = ENGINE_BOUNDS.batchInputsMax + 3;
    await Promise.all(Array.from({ length: count }, (_, n) => ask(engine, `s${n}`)));
    expect(faulty.batches.map(({ events }) => events.length)).toEqual([ENGINE_BOUNDS.batchInputsMax, 3]);
  });

  test('nobody is answered, and nothing is published, before the commit is durable', async () => {
    const faulty = new Faulty();
    const gate = Promise.withResolvers<void>();
    const entered = Promise.withResolvers<void>();
    const commit = faulty.log.commit.bind(faulty.log);
    faulty.log.commit = async (reads, fn) => {
      const outcome = await commit(reads, fn);
      entered.resolve();
      await gate.promise;
      return outcome;
    };
    const engine = await open(faulty.log);
    const told: string[] = [];
    engine.subscribe(() => told.push('published'));
    const answer = ask(engine, 's').then(() => told.push('answered'));
    const looked = entered.promise.then(() => engine.look((state) => told.push(`looked at ${state.seq}`)));
    await entered.promise;
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toEqual([]);
    gate.resolve();
    await Promise.all([answer, looked]);
    expect(told).toEqual(['published', 'answered', 'looked at 1']);
  });

  test('twenty requests for one slot at once make one lease', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => ask(engine, 'one', { agent: `agent-${n}` })),
    );
    expect(answers.filter((answer) => answer.ok)).toHaveLength(1);
    expect(answers.flatMap((answer) => (answer.ok ? [] : [answer.refusal.code]))).toEqual(
      Array.from({ length: 19 }, () => 'SLOT_HELD'),
    );
    expect(engine.state.leases.size).toBe(1);
  });

  test('refusals alone write nothing', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    await ask(engine, 's');
    const answer = await ask(engine, 's', { agent: 'other' }, 'key');
    expect(answer).toMatchObject({ ok: false, refusal: { code: 'SLOT_HELD' } });
    expect(faulty.batches[1]).toMatchObject({ events: [], archive: [], replies: [] });
  });
});

describe('idempotency', () => {
  test('the same key is answered again with the same reply, and steps nothing', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const first = await ask(engine, 's', {}, 'key');
    const again = await ask(engine, 's', {}, 'key');
    expect(again).toEqual(first);
    expect(engine.state.seq).toBe(1);
  });

  test('two calls with one key in the same batch are one', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const [first, again] = await Promise.all([ask(engine, 's', {}, 'key'), ask(engine, 's', {}, 'key')]);
    expect(again).toEqual(first);
    expect(faulty.batches).toHaveLength(1);
    expect(faulty.batches[0]?.replies).toHaveLength(1);
  });

  test('a key with other arguments is refused', async () => {
    const engine = await open(new Faulty().log);
    await ask(engine, 's', {}, 'key');
    expect(await ask(engine, 'other', {}, 'key')).toMatchObject({
      ok: false,
      refusal: { code: 'idempotency_key_reused' },
    });
  });

  test('a key outlives the process', async () => {
    const faulty = new Faulty();
    const first = await ask(await open(faulty.log), 's', {}, 'key');
    const again = await ask(await open(new MemoryLog(faulty.disk)), 's', {}, 'key');
    expect(again).toEqual(first);
  });

  test('a refusal is not remembered: the same key may succeed later', async () => {
    const engine = await open(new Faulty().log);
    const held = await ask(engine, 's', { agent: 'holder' });
    if (!held.ok) throw new Error('refused');
    expect(await ask(engine, 's', { agent: 'next' }, 'key')).toMatchObject({ ok: false });
    const release = await engine.submit<'release_lease'>(
      {
        type: 'release_lease',
        lease_id: held.reply.lease_id,
        by: { principal: 'owner', tenant: 'local' },
        claim_token: null,
        how: 'reap',
        disposition: 'destroy',
        idle_ttl_ms: null,
        reason: 'done',
        archived: null,
      },
      BY,
    );
    expect(release.ok).toBe(true);
    expect(await ask(engine, 's', { agent: 'next' }, 'key')).toMatchObject({ ok: true });
  });
});

describe('loading', () => {
  test('an event that contradicts the log before it stops the start and is named', async () => {
    const disk = new MemoryDisk(newId());
    const log = new MemoryLog(disk);
    const event = { type: 'job_closed', job_id: 'j', outcome: 'completed' } as const;
    await log.commit({ idempotency: [], archive: [] }, () => ({
      batchId: 'b',
      events: [{ seq: 1, at: 1, event }],
      archive: [],
      replies: [],
      at: 1,
    }));
    await expect(open(new MemoryLog(disk))).rejects.toMatchObject({
      code: 'internal',
      fields: { seq: 1, type: 'job_closed' },
    });
  });

  test('a snapshot of a newer program stops the start', async () => {
    const disk = new MemoryDisk(newId());
    await new MemoryLog(disk).snapshot(0, { version: 99 });
    await expect(open(new MemoryLog(disk))).rejects.toMatchObject({ code: 'log_newer' });
  });

  test('time goes on from the last event, though the wall clock is behind it', async () => {
    const faulty = new Faulty();
    const ahead = new CoordinatorClock({ graceMs: 1 });
    ahead.startAfter(Date.now() + 3_600_000);
    await ask(await Engine.open({ log: faulty.log, clock: ahead, liveness: nobody }), 's');
    const clock = new CoordinatorClock({ graceMs: 1 });
    const engine = await Engine.open({ log: new MemoryLog(faulty.disk), clock, liveness: nobody });
    expect(clock.now()).toBeGreaterThanOrEqual(engine.state.at);
    expect(clock.now()).toBeGreaterThan(Date.now() + 3_500_000);
  });

  test('a snapshot is stored every so many events, off the path of the requests, and at the end', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const count = ENGINE_BOUNDS.eventsPerSnapshot;
    await Promise.all(Array.from({ length: count - 1 }, (_, n) => register(engine, `life-${n}`)));
    expect(faulty.disk.snapshots).toHaveLength(0);
    await register(engine, 'last');
    expect(faulty.disk.snapshots).toHaveLength(0);
    await eventually('a snapshot', () => faulty.disk.snapshots.length === 1);
    await ask(engine, 'after');
    await engine.close();
    expect(faulty.disk.snapshots.map(({ seq }) => seq)).toEqual([count, count + 1]);
    await expectFolded(engine, faulty.disk);
  });

  test('a snapshot that cannot be stored costs nothing but time', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    await ask(engine, 's');
    faulty.faults.push('snapshot');
    await engine.close();
    expect((await open(new MemoryLog(faulty.disk))).state.seq).toBe(1);
  });
});

describe('several coordinators on one log', () => {
  test('each steps on what the others appended, and publishes it', async () => {
    const disk = new MemoryDisk(newId());
    const a = await open(new MemoryLog(disk));
    const b = await open(new MemoryLog(disk));
    const heard: number[] = [];
    b.subscribe((events) => heard.push(...events.map(({ seq }) => seq)));
    expect(await ask(a, 's')).toMatchObject({ ok: true, seq: 1 });
    expect(await ask(b, 's', { agent: 'other' })).toMatchObject({ ok: false, refusal: { code: 'SLOT_HELD' } });
    expect(await ask(b, 't')).toMatchObject({ ok: true, seq: 2 });
    expect(heard).toEqual([1, 2]);
  });

  test('one that is behind what a client saw catches up before it answers', async () => {
    const disk = new MemoryDisk(newId());
    const a = await open(new MemoryLog(disk));
    const b = await open(new MemoryLog(disk));
    await ask(a, 's');
    expect(await b.look((state) => state.seq)).toBe(0);
    expect(await b.look((state) => state.seq, 1)).toBe(1);
    expect(await b.look((state) => state.seq, 99)).toBe(1);
  });
});

describe('bounds', () => {
  test('more inputs than may wait are refused as overloaded', async () => {
    const engine = await open(new Faulty().log);
    const waiting = Array.from({ length: ENGINE_BOUNDS.queuedInputsMax }, () =>
      engine.submit<'tick', null>(() => new Settled(null), BY),
    );
    await expect(ask(engine, 's')).rejects.toMatchObject({ code: 'overloaded' });
    await Promise.all(waiting);
    expect(await ask(engine, 's')).toMatchObject({ ok: true });
  });
});
