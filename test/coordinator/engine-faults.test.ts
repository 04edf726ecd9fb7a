import { describe, expect, test } from 'bun:test';
import { CoordinatorClock } from '../../src/coordinator/coordinator-clock.ts';
import { Engine } from '../../src/coordinator/engine.ts';
import { Failure } from '../../src/platform/failure.ts';
import { ask, BY, expectFolded, Faulty, nobody, open, request } from './_faulty-engine.ts';

describe('a commit that fails', () => {
  test('refuses its batch, leaves no trace in the state, and the next commit is tried afresh', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    await ask(engine, 'before');
    const published: number[] = [];
    engine.subscribe((events) => published.push(...events.map(({ seq }) => seq)));
    faulty.faults.push('before_commit');
    const failed = await Promise.allSettled([ask(engine, 'a', {}, 'ka'), ask(engine, 'b')]);
    const refused = { status: 'rejected', reason: { code: 'state_unwritable', fields: { path: 'memory' } } };
    expect(failed).toMatchObject([refused, refused]);
    expect(engine.state.seq).toBe(1);
    await expectFolded(engine, faulty.disk);
    expect(published).toEqual([]);
    expect(await ask(engine, 'a', {}, 'ka')).toMatchObject({ ok: true, seq: 2 });
    expect(published).toEqual([2]);
    await expectFolded(engine, faulty.disk);
  });

  test('is answered as it happened when only its answer was lost', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const published: number[] = [];
    engine.subscribe((events) => published.push(...events.map(({ seq }) => seq)));
    faulty.faults.push('after_commit');
    expect(await ask(engine, 's', {}, 'key')).toMatchObject({ ok: true, seq: 1 });
    expect(published).toEqual([1]);
    await expectFolded(engine, faulty.disk);
    expect(await ask(engine, 'next')).toMatchObject({ ok: true, seq: 2 });
  });

  test('and a log that cannot be read afterwards refuse everything until it can be read again', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    await ask(engine, 'before');
    faulty.faults.push('before_commit', 'load', 'load');
    await expect(ask(engine, 'a')).rejects.toMatchObject({ code: 'state_unwritable' });
    await expect(engine.look((state) => state.seq)).rejects.toMatchObject({ code: 'log_unavailable' });
    await expect(ask(engine, 'b')).rejects.toMatchObject({ code: 'state_unwritable' });
    expect(await ask(engine, 'c')).toMatchObject({ ok: true, seq: 2 });
    expect(await engine.look((state) => state.seq)).toBe(2);
    await expectFolded(engine, faulty.disk);
  });

  test('gives every deadline a grace period, since renewals were refused too', async () => {
    const faulty = new Faulty();
    const clock = new CoordinatorClock({ graceMs: 60_000 });
    const engine = await Engine.open({ log: faulty.log, clock, liveness: nobody });
    expect(clock.graceUntil).toBe(0);
    faulty.faults.push('before_commit');
    await expect(ask(engine, 's')).rejects.toBeInstanceOf(Failure);
    expect(clock.graceUntil).toBeGreaterThan(clock.now() + 59_000);
  });
});

describe('a bug in one input', () => {
  const buggy = (engine: Engine, where: 'build' | 'render') =>
    engine.submit<'request_lease', never>(
      () => {
        if (where === 'build') throw new Error('bug');
        return { type: 'request_lease', request: request('buggy') };
      },
      {
        ...BY,
        render: () => {
          throw new Error('bug');
        },
      },
    );

  test.each(['build', 'render'] as const)('in its %s refuses that input alone', async (where) => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const answers = await Promise.all([ask(engine, 'a'), buggy(engine, where), ask(engine, 'b', {}, 'kb')]);
    expect(answers).toMatchObject([{ ok: true }, { ok: false, refusal: { code: 'internal' } }, { ok: true }]);
    expect([...engine.state.leases.values()].map(({ slot }) => slot)).toEqual(['a', 'b']);
    expect(faulty.batches.at(-1)?.events).toHaveLength(2);
    await expectFolded(engine, faulty.disk);
  });

  test('a contradiction in the machines refuses that input alone and leaves no trace', async () => {
    const faulty = new Faulty();
    const engine = await open(faulty.log);
    const contradiction = engine.submit<'request_lease'>((look) => {
      look.state.index.leaseBySlot.set('buggy', 'nobody');
      return { type: 'request_lease', request: request('buggy') };
    }, BY);
    const answers = await Promise.all([ask(engine, 'a'), contradiction, ask(engine, 'c')]);
    expect(answers).toMatchObject([{ ok: true }, { ok: false, refusal: { code: 'internal' } }, { ok: true }]);
    expect([...engine.state.leases.values()].map(({ slot }) => slot)).toEqual(['a', 'c']);
    await expectFolded(engine, faulty.disk);
  });

  test('in a listener harms neither the others nor the answer', async () => {
    const engine = await open(new Faulty().log);
    const heard: number[] = [];
    engine.subscribe(() => {
      throw new Error('bug');
    });
    engine.subscribe((events) => heard.push(events.length));
    expect(await ask(engine, 's')).toMatchObject({ ok: true });
    expect(heard).toEqual([1]);
  });
});
