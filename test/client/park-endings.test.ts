import { describe, expect, test } from 'bun:test';
import {
  DrivenPark,
  endedWait,
  type Happening,
  LEASE,
  leaseView,
  OTHER,
  parkIn,
  REFUSED,
  REJECTED,
  UNREACHABLE,
  WAIT,
  waitView,
} from './_parks.ts';

const readFailed: Happening = { type: 'lease_read_failed', trouble: UNREACHABLE };
const stillProvisioning: Happening = { type: 'lease_read', lease: leaseView({ state: 'provisioning' }) };

describe('an incident', () => {
  test('keeps the latest failure, counts attempts, recovers and opens again', () => {
    const park = parkIn('registering');
    park.on({ type: 'registration_failed', trouble: { status: 503, code: 'overloaded', message: 'a'.repeat(400) } });
    expect(park.state.incident).toEqual({
      reason: 'platform_unreachable',
      first_at: '1970-01-01T00:16:40.000Z',
      last_at: '1970-01-01T00:16:40.000Z',
      attempts: 1,
      recovered: false,
      last_error: 'a'.repeat(300),
      last_error_code: 'overloaded',
    });
    park.nowMs = 1_000;
    park.on({ type: 'backoff_elapsed' }, stillProvisioning);
    expect(park.state.incident?.recovered).toBeTrue();
    park.on({ type: 'registration_failed', trouble: REJECTED });
    expect(park.state.incident).toMatchObject({
      reason: 'platform_auth_unavailable',
      first_at: '1970-01-01T00:16:40.000Z',
      last_at: '1970-01-01T00:16:41.000Z',
      attempts: 2,
      recovered: false,
    });
  });

  test('is opened by a cut stream that resumes at once too', () => {
    const park = parkIn('streaming').on({ type: 'stream_closed', message: 'cut' });
    park.on({ type: 'backoff_elapsed' }, { type: 'lease_read', lease: leaseView({ state: 'active' }) });
    expect(park.end?.incident).toMatchObject({ reason: 'platform_unreachable', attempts: 1, recovered: true });
  });

  test('that is open at the deadline gives the time-out its reason', () => {
    const park = parkIn('concluding').on(readFailed);
    expect(park.end).toMatchObject({ outcome: 'timeout', code: 'platform_unreachable' });
    expect(park.end?.error).toContain('never observed');
  });

  test('that the last look recovers leaves an ordinary time-out', () => {
    const park = parkIn('backing_off').on({ type: 'deadline_reached' }, stillProvisioning);
    expect(park.end).toMatchObject({ outcome: 'timeout', code: 'timeout', incident: { recovered: true } });
  });

  test('survives a refused answer as recovered', () => {
    const park = parkIn('reading').on({ type: 'lease_read_failed', trouble: REFUSED });
    expect(park.state.incident?.recovered).toBeTrue();
  });
});

describe('a wait that the coordinator ended', () => {
  const timedOut: Happening = { type: 'registered', wait: waitView(endedWait('timeout')) };

  test('by its timer inside an open incident is armed again under another id, before the deadline', () => {
    const park = parkIn('registering');
    park.on({ type: 'registration_failed', trouble: UNREACHABLE }, { type: 'backoff_elapsed' });
    park.on({ type: 'lease_read_failed', trouble: REFUSED });
    park.state = { ...park.state, incident: { ...park.state.incident, recovered: false } as never };
    park.on(timedOut);
    expect(park.last).toMatchObject([{ type: 'register', waitId: `${WAIT.slice(0, -1)}4` }]);
    expect(park.state.incident?.recovered).toBeTrue();
  });

  test('by its timer without an incident is followed by the last look', () => {
    expect(parkIn('registering').on(timedOut).glimpse).toBe('concluding read_lease');
    const frame = { id: 'e.4', type: 'wait_ended' as const, data: { ended: endedWait('timeout') } };
    const park = parkIn('streaming').on({ type: 'frame', frame });
    expect(park.glimpse).toBe('concluding read_lease');
    expect(park.on({ type: 'lease_read', lease: leaseView({ state: 'active' }) }).end?.outcome).toBe('matched');
  });

  test('as abandoned ends the park with status and reason', () => {
    const fields = { status: 'abandoned', reason: 'cancelled', wait_session_id: WAIT };
    const data = { code: 'wait_abandoned', message: 'the wait was given up', fields };
    const park = parkIn('streaming').on({ type: 'frame', frame: { id: 'e.4', type: 'error', data } });
    expect(park.end).toMatchObject({
      outcome: 'abandoned',
      code: 'wait_abandoned',
      state: { status: 'abandoned', reason: 'cancelled' },
      waitLeftOpen: false,
    });
  });

  test('for want of a stream during an incident is armed again: a blip is no outcome', () => {
    const abandoned = endedWait('abandoned', { status: 'abandoned', reason: 'no_live_stream' });
    const park = parkIn('registering').on({ type: 'registered', wait: waitView(abandoned) });
    expect(park.end?.outcome).toBe('abandoned');
    const cut = parkIn('registering');
    cut.state = { ...cut.state, incident: { recovered: false } as never };
    expect(cut.on({ type: 'registered', wait: waitView(abandoned) }).glimpse).toBe('registering register');
  });
});

describe('the last look', () => {
  test('never reaps a healthy stack for a missed wake', () => {
    const park = parkIn('concluding').on({ type: 'lease_read', lease: leaseView({ state: 'active' }) });
    expect(park.end?.outcome).toBe('matched');
  });

  test('takes the read that is on its way already', () => {
    const park = parkIn('reading').on({ type: 'deadline_reached' });
    expect(park.last).toEqual([]);
    expect(park.on({ type: 'lease_read', lease: leaseView({ state: 'provisioning' }) }).end?.outcome).toBe('timeout');
  });

  test('is left out where there is no lease to look at', () => {
    const park = new DrivenPark({ conditions: ['timer:in=5m'] }).on({ type: 'started' }, { type: 'deadline_reached' });
    expect(park.end).toMatchObject({ outcome: 'timeout', code: 'timeout', waitLeftOpen: true });
  });
});

describe('a lease that goes back to the queue', () => {
  const deferred = leaseView({ state: 'queued', provision_defer_reason: 'pressure' });

  test('ends the park on a frame and on a read', () => {
    const frame = { id: 'e.4', type: 'lease' as const, data: { lease: deferred } };
    const byFrame = parkIn('streaming').on({ type: 'frame', frame });
    expect(byFrame.end).toMatchObject({ outcome: 'deferred', code: null, waitLeftOpen: true, lease: deferred });
    expect(parkIn('reading').on({ type: 'lease_read', lease: deferred }).end?.outcome).toBe('deferred');
  });

  test('is waited for where the park is not about that lease', () => {
    const conditions = [`lease:id=${LEASE},state=active`];
    const park = parkIn('streaming', { endsWhenDeferred: false, conditions });
    park.on({ type: 'frame', frame: { id: 'e.4', type: 'lease', data: { lease: deferred } } });
    expect(park.glimpse).toBe('streaming');
  });

  test('is what a queue park waits through', () => {
    const park = parkIn('reading', { conditions: [`lease:id=${LEASE}`] });
    expect(park.on({ type: 'lease_read', lease: leaseView() }).glimpse).toBe('registering register');
  });
});

describe('a rejected credential', () => {
  test('is looked after once the back-off is over, before the next attempt', () => {
    const park = parkIn('refreshing');
    expect(park.last).toEqual([{ type: 'refresh_credential' }]);
    expect(park.on({ type: 'credential_checked', verdict: { type: 'ready' } }).glimpse).toBe('reading read_lease');
  });

  test('ends the park once its budget is spent', () => {
    const park = new DrivenPark({ deadlineMs: 10_000_000 }).on({ type: 'started' });
    const checked: Happening = { type: 'credential_checked', verdict: { type: 'ready' } };
    park.on({ type: 'registration_failed', trouble: REJECTED });
    for (let round = 0; round < 100 && park.end === null; round += 1) {
      park.nowMs += park.backoffMs;
      park.on({ type: 'backoff_elapsed' }, checked, { type: 'lease_read_failed', trouble: REJECTED });
    }
    expect(park.end).toMatchObject({ outcome: 'error', code: 'platform_auth_unavailable' });
    expect(park.nowMs).toBeGreaterThanOrEqual(300_000);
    expect(park.nowMs).toBeLessThan(400_000);
  });

  test('spends nothing of the budget while there is no answer at all', () => {
    const park = parkIn('refreshing', { authBudgetMs: 1_000, deadlineMs: 10_000_000 });
    park.nowMs = 500_000;
    park.on({ type: 'credential_checked', verdict: { type: 'failed', trouble: UNREACHABLE } });
    expect(park.glimpse).toBe('backing_off back_off');
    park.on({ type: 'backoff_elapsed' }, { type: 'lease_read_failed', trouble: REJECTED });
    expect(park.glimpse).toBe('backing_off back_off');
  });

  test('ends the park at once on a code that no retry changes', () => {
    const trouble = { status: 403, code: 'session_identity_mismatch', message: 'another machine' };
    const park = parkIn('refreshing').on({ type: 'credential_checked', verdict: { type: 'failed', trouble } });
    expect(park.end).toMatchObject({ outcome: 'error', code: 'platform_auth_unavailable', error: 'another machine' });
  });
});

describe('several conditions', () => {
  const conditions = [`lease:id=${LEASE},state=active`, `lease:id=${OTHER},state=active`];
  const active = (lease_id: string): Happening => ({
    type: 'lease_read',
    lease: leaseView({ lease_id, state: 'active' }),
  });

  test('are read one after the other, and all must hold', () => {
    const park = parkIn('reading', { conditions }).on(active(LEASE));
    expect(park.last).toEqual([{ type: 'read_lease', leaseId: OTHER }]);
    expect(park.on(active(OTHER)).end?.outcome).toBe('matched');
  });

  test('with --any end with the first, and with either mode on a loss', () => {
    expect(parkIn('reading', { conditions, mode: 'any' }).on(active(LEASE)).end?.outcome).toBe('matched');
    const lost = { type: 'lease_read' as const, lease: leaseView({ state: 'reaped', cleanup_verified: true }) };
    expect(parkIn('reading', { conditions, mode: 'any' }).on(lost).end?.outcome).toBe('lease_lost');
  });

  test('of a timer keep the time that was first registered', () => {
    const park = new DrivenPark({ conditions: ['timer:in=5m'] }).on({ type: 'started' });
    const wait = { ...waitView(), conditions: ['timer:at=2026-01-01T00:00:00.000Z'] };
    park.on({ type: 'registered', wait }, { type: 'stream_opened' }, { type: 'stream_closed', message: 'cut' });
    park.on({ type: 'backoff_elapsed' });
    expect(park.last).toMatchObject([{ type: 'register', conditions: ['timer:at=2026-01-01T00:00:00.000Z'] }]);
  });
});

describe('frames', () => {
  test('of an open stream move the cursor, and news of work or a farewell decide nothing', () => {
    const park = parkIn('streaming');
    park.on({ type: 'frame', frame: { id: 'e.8', type: 'open', data: { cursor: 'e.8', epoch: 'e' } } });
    park.on({ type: 'frame', frame: { id: null, type: 'farewell', data: { reason: 'idle' } } });
    park.on({ type: 'frame', frame: { id: null, type: 'host_work', data: { reason: 'x' } } });
    expect(park.glimpse).toBe('streaming');
    expect(park.state.cursor).toBe('e.8');
  });

  test('that say the reader was too slow lead to another stream', () => {
    const data = { code: 'slow_reader', message: 'too slow', fields: {} };
    const park = parkIn('streaming').on({ type: 'frame', frame: { id: null, type: 'error', data } });
    expect(park.glimpse).toBe('backing_off close_stream back_off');
  });
});
