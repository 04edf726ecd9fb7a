/** What every log must do. An implementation plugs in with a store that outlives the handles opened on it. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { Event, SequencedEvent } from '../../src/core/events.ts';
import type { EndedWait, Wait } from '../../src/core/model.ts';
import {
  archiveId,
  type CommitPlan,
  type EventLog,
  idempotencyId,
  LOG_BOUNDS,
  type ReplyRow,
  type StoredRow,
} from '../../src/log/event-log.ts';
import { newId } from '../../src/platform/random.ts';

export interface LogStore {
  open(): EventLog;
  dispose(): void;
}

const event = (n: number): Event => ({ type: 'host_beaconed', host_id: `host ${n} \u2603 '"\n`, capacity_units: n });
const at = (n: number): number => 1_000 + n;
const sequenced = (seq: number): SequencedEvent => ({ seq, at: at(seq), event: event(seq) });
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

const plan = (over: Partial<CommitPlan>): CommitPlan => ({
  batchId: newId(),
  events: [],
  archive: [],
  replies: [],
  at: 1_000,
  ...over,
});

const NOTHING = { idempotency: [], archive: [] };

const append = (log: EventLog, ...seqs: number[]) =>
  log.commit(NOTHING, () => plan({ events: seqs.map(sequenced), at: at(seqs.at(-1) ?? 0) }));

const waitRow = (id: string): StoredRow => {
  const wait = { wait_session_id: id, tenant: 't', principal: 'p', conditions: [] } as unknown as Wait;
  const ended = { wait_session_id: id, outcome: 'matched', ended_at: 7 } as unknown as EndedWait;
  return { kind: 'wait', id, body: { wait, ended } };
};

const reply = (key: string, over: Partial<ReplyRow> = {}): ReplyRow => ({
  principal: 'p',
  key,
  args_hash: 'h',
  reply: { said: key },
  ...over,
});

export function describeEventLog(name: string, makeStore: () => LogStore): void {
  describe(`the log: ${name}`, () => {
    let store: LogStore;
    let log: EventLog;

    beforeEach(async () => {
      store = makeStore();
      log = store.open();
      await log.load();
    });

    afterEach(async () => {
      await log.close();
      store.dispose();
    });

    const reopened = async (): Promise<EventLog> => {
      await log.close();
      log = store.open();
      return log;
    };

    const kept = async (key: string, principal = 'p'): Promise<unknown> => {
      let found: unknown;
      await log.commit({ idempotency: [{ principal, key }], archive: [] }, (view) => {
        found = view.replies.get(idempotencyId({ principal, key }));
        return plan({});
      });
      return found;
    };

    describe('events', () => {
      test('a new log is empty and says where it would begin', async () => {
        expect(await log.load()).toEqual({ snapshot: null, tail: [] });
        expect(await log.oldestSeq()).toBe(1);
        expect(await log.readSince(0, 10)).toEqual([]);
      });

      test('what was committed is loaded in order by the next handle, exactly as it was', async () => {
        expect(await append(log, 1, 2, 3)).toEqual({ seq: 3 });
        expect(await append(log, 4)).toEqual({ seq: 4 });
        expect((await (await reopened()).load()).tail).toEqual(range(1, 4).map(sequenced));
      });

      test('a plan without events and rows writes nothing and keeps the head', async () => {
        await append(log, 1);
        expect(await log.commit(NOTHING, () => plan({}))).toEqual({ seq: 1 });
        expect((await (await reopened()).load()).tail).toHaveLength(1);
      });

      test('a plan whose events leave a gap, or come twice, is refused and nothing of it stays', async () => {
        await append(log, 1);
        for (const seqs of [[3], [1], [2, 4], [2, 2]]) {
          await expect(append(log, ...seqs)).rejects.toMatchObject({ code: 'internal' });
        }
        expect(await append(log, 2)).toEqual({ seq: 2 });
        expect((await (await reopened()).load()).tail).toEqual([sequenced(1), sequenced(2)]);
      });

      test('what the function throws passes through and nothing of the commit stays', async () => {
        const bug = new Error('bug');
        const failing = log.commit(NOTHING, () => {
          throw bug;
        });
        await expect(failing).rejects.toBe(bug);
        expect(await append(log, 1)).toEqual({ seq: 1 });
      });

      test('two handles see what the other one appended, once, in order, before they append', async () => {
        const other = store.open();
        await other.load();
        await append(log, 1, 2);
        const missed: SequencedEvent[] = [];
        await other.commit(NOTHING, (view) => {
          missed.push(...view.missed);
          return plan({ events: [sequenced(3)] });
        });
        expect(missed).toEqual([sequenced(1), sequenced(2)]);
        await log.commit(NOTHING, (view) => {
          expect(view.missed).toEqual([sequenced(3)]);
          return plan({});
        });
        await other.commit(NOTHING, (view) => {
          expect(view.missed).toEqual([]);
          return plan({});
        });
        await other.close();
      });

      test('an event is handed out again when the function that saw it failed', async () => {
        const other = store.open();
        await other.load();
        await append(log, 1);
        const failing = other.commit(NOTHING, () => {
          throw new Error('bug');
        });
        await expect(failing).rejects.toThrow('bug');
        await other.commit(NOTHING, (view) => {
          expect(view.missed).toEqual([sequenced(1)]);
          return plan({});
        });
        await other.close();
      });

      test('a reader pages through the tail', async () => {
        await append(log, ...range(1, 25));
        expect(await log.readSince(0, 10)).toEqual(range(1, 10).map(sequenced));
        expect(await log.readSince(20, 10)).toEqual(range(21, 25).map(sequenced));
        expect(await log.readSince(25, 10)).toEqual([]);
      });

      test('a batch is found by its id above a place, and no other one is', async () => {
        await log.commit(NOTHING, () => plan({ batchId: 'mine', events: [sequenced(1), sequenced(2)] }));
        expect(await log.hasBatch('mine', 0)).toBe(true);
        expect(await log.hasBatch('mine', 2)).toBe(false);
        expect(await log.hasBatch('other', 0)).toBe(false);
      });
    });

    describe('snapshots and pruning', () => {
      test('loading begins at the newest snapshot and goes on with the tail after it', async () => {
        await append(log, ...range(1, 6));
        await log.snapshot(2, { folded: 'old' });
        await log.snapshot(4, { folded: 'new' });
        expect(await (await reopened()).load()).toEqual({
          snapshot: { seq: 4, state: { folded: 'new' } },
          tail: [sequenced(5), sequenced(6)],
        });
      });

      test('pruning forgets what a snapshot covers, never more', async () => {
        await append(log, ...range(1, 6));
        await log.prune(4);
        expect(await log.oldestSeq()).toBe(1);
        await log.snapshot(4, {});
        await log.prune(3);
        expect(await log.oldestSeq()).toBe(3);
        await log.prune(100);
        expect(await log.oldestSeq()).toBe(5);
        expect((await (await reopened()).load()).tail).toEqual([sequenced(5), sequenced(6)]);
      });

      test('numbers go on after everything was pruned', async () => {
        await append(log, 1, 2);
        await log.snapshot(2, { all: true });
        await log.prune(3);
        expect(await log.oldestSeq()).toBe(3);
        expect(await (await reopened()).load()).toEqual({ snapshot: { seq: 2, state: { all: true } }, tail: [] });
        expect(await append(log, 3)).toEqual({ seq: 3 });
      });
    });

    describe('rows beside the events', () => {
      test('archived records are read by kind and id, inside a commit and outside', async () => {
        await log.commit(NOTHING, () => plan({ events: [sequenced(1)], archive: [waitRow('w')] }));
        await (await reopened()).load();
        expect(await log.readArchive('wait', 'w')).toEqual(waitRow('w').body as never);
        expect(await log.readArchive('lease', 'w')).toBeNull();
        await log.commit(
          {
            idempotency: [],
            archive: [
              { kind: 'wait', id: 'w' },
              { kind: 'wait', id: 'x' },
            ],
          },
          (view) => {
            expect([...view.archived.keys()]).toEqual([archiveId('wait', 'w')]);
            return plan({});
          },
        );
      });

      test('a statement is kept as the very text that was signed', async () => {
        const statement = '{"b": 1,  "a":"\\u00e9é"}';
        const body = { statement, key_id: 'k', signature: 's', host_id: 'h', lease_id: 'l' };
        await log.commit(NOTHING, () => plan({ archive: [{ kind: 'statement', id: 'r', body }] }));
        expect(await (await reopened()).readArchive('statement', 'r')).toEqual(body);
      });

      test('the archive forgets after its time, with the next snapshot', async () => {
        await log.commit(NOTHING, () => plan({ archive: [waitRow('old')], at: 1 }));
        await log.commit(NOTHING, () => plan({ archive: [waitRow('edge')], at: 2 }));
        await log.commit(NOTHING, () => plan({ archive: [waitRow('new')], at: 2 + LOG_BOUNDS.archiveKeptMs }));
        await log.snapshot(0, {});
        expect(await log.readArchive('wait', 'old')).toBeNull();
        expect(await log.readArchive('wait', 'edge')).not.toBeNull();
      });

      test('a reply is found under its principal and key with the hash of its arguments', async () => {
        await log.commit(NOTHING, () => plan({ replies: [reply('k', { args_hash: 'hash' })] }));
        await reopened();
        await log.load();
        expect(await kept('k')).toEqual({ args_hash: 'hash', reply: { said: 'k' } });
        expect(await kept('other')).toBeUndefined();
      });

      test('the oldest replies of a principal go when it has too many, and only its own', async () => {
        const max = LOG_BOUNDS.idempotencyKeysPerPrincipalMax;
        await log.commit(NOTHING, () => plan({ replies: [reply('theirs', { principal: 'q' })] }));
        await log.commit(NOTHING, () => plan({ replies: range(1, max).map((n) => reply(`k${n}`)) }));
        expect(await kept('k1')).toBeDefined();
        await log.commit(NOTHING, () => plan({ replies: [reply('one more'), reply('and another')] }));
        expect(await kept('k1')).toBeUndefined();
        expect(await kept('k2')).toBeUndefined();
        expect(await kept('k3')).toBeDefined();
        expect(await kept('and another')).toBeDefined();
        expect(await kept('theirs', 'q')).toBeDefined();
      });

      test('replies go after their time', async () => {
        await log.commit(NOTHING, () => plan({ replies: [reply('old')], at: 1 }));
        await log.commit(NOTHING, () => plan({ replies: [reply('young')], at: 2 }));
        await log.commit(NOTHING, () => plan({ replies: [reply('new')], at: 2 + LOG_BOUNDS.idempotencyKeptMs }));
        expect(await kept('old')).toBeUndefined();
        expect(await kept('young')).toBeDefined();
      });

      test('events, records and replies of a failed commit are all missing', async () => {
        const gap = plan({ events: [sequenced(7)], archive: [waitRow('w')], replies: [reply('k')] });
        await expect(log.commit(NOTHING, () => gap)).rejects.toMatchObject({ code: 'internal' });
        expect(await kept('k')).toBeUndefined();
        expect(await log.readArchive('wait', 'w')).toBeNull();
      });
    });

    describe('identity', () => {
      test('the epoch stays with the store', async () => {
        const epoch = log.epoch;
        expect((await reopened()).epoch).toBe(epoch);
        const elsewhere = makeStore();
        const other = elsewhere.open();
        expect(other.epoch).not.toBe(epoch);
        await other.close();
        elsewhere.dispose();
      });

      test('small facts are kept and replaced', async () => {
        expect(await log.readMeta('fact')).toBeNull();
        await log.writeMeta('fact', 'one');
        await log.writeMeta('fact', 'two');
        expect(await (await reopened()).readMeta('fact')).toBe('two');
      });
    });
  });
}
