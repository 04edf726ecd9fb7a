import { describe, expect, test } from 'bun:test';
import { type FaultPoint, MemoryDisk, MemoryLog } from '../../src/log/memory-log.ts';
import { Failure } from '../../src/platform/failure.ts';
import { newId } from '../../src/platform/random.ts';
import { describeEventLog } from './conformance.ts';

describeEventLog('in memory', () => {
  const disk = new MemoryDisk(newId());
  return { open: () => new MemoryLog(disk), dispose: () => {} };
});

describe('faults of the log in memory', () => {
  const nothing = { idempotency: [], archive: [] };
  const one = () => ({
    batchId: 'b',
    events: [{ seq: 1, at: 1, event: { type: 'host_beaconed' as const, host_id: 'h', capacity_units: 1 } }],
    archive: [],
    replies: [],
    at: 1,
  });

  test('one before the commit leaves nothing behind, one after it leaves everything', async () => {
    for (const [point, happened] of [
      ['before_commit', false],
      ['after_commit', true],
    ] as [FaultPoint, boolean][]) {
      const disk = new MemoryDisk('e');
      const log = new MemoryLog(disk, (reached) => {
        if (reached === point) throw new Failure('state_unwritable', 'full');
      });
      await expect(log.commit(nothing, one)).rejects.toMatchObject({ code: 'state_unwritable' });
      expect(await log.hasBatch('b', 0)).toBe(happened);
    }
  });
});
