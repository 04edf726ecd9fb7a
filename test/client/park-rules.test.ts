import { describe, expect, test } from 'bun:test';
import type { ParkEventType, ParkPhase } from '../../src/client/park-model.ts';
import {
  DEADLINE_MS,
  DrivenPark,
  endedWait,
  type Happening,
  LEASE,
  leaseView,
  parkIn,
  REFUSED,
  UNREACHABLE,
  WAIT,
  waitView,
} from './_parks.ts';

const PHASES: readonly ParkPhase[] = [
  'ready',
  'registering',
  'opening',
  'streaming',
  'checking',
  'backing_off',
  'refreshing',
  'reading',
  'concluding',
  'ended',
];

const EVENTS: Record<ParkEventType, Happening> = {
  started: { type: 'started' },
  registered: { type: 'registered', wait: waitView() },
  registration_failed: { type: 'registration_failed', trouble: UNREACHABLE },
  stream_opened: { type: 'stream_opened' },
  frame: { type: 'frame', frame: { id: 'e.9', type: 'wait_ended', data: { ended: endedWait('matched') } } },
  stream_closed: { type: 'stream_closed', message: 'cut' },
  stream_failed: { type: 'stream_failed', trouble: UNREACHABLE },
  backoff_elapsed: { type: 'backoff_elapsed' },
  credential_checked: { type: 'credential_checked', verdict: { type: 'ready' } },
  lease_read: { type: 'lease_read', lease: leaseView({ state: 'provisioning' }) },
  lease_read_failed: { type: 'lease_read_failed', trouble: UNREACHABLE },
  deadline_reached: { type: 'deadline_reached' },
  interrupted: { type: 'interrupted' },
};

/** What each pair comes to: the phase after it, then the actions. Pairs that are not here change nothing. */
const COMES_TO: { readonly [E in ParkEventType]: Partial<Record<ParkPhase, string>> } = {
  started: { ready: 'registering register' },
  registered: { registering: 'opening open_stream', concluding: 'concluding' },
  registration_failed: { registering: 'backing_off back_off', concluding: 'concluding' },
  stream_opened: { opening: 'streaming' },
  frame: {
    opening: 'ended close_stream end matched',
    streaming: 'ended close_stream end matched',
    checking: 'ended close_stream end matched',
    concluding: 'ended end matched',
  },
  stream_closed: {
    opening: 'backing_off back_off',
    streaming: 'backing_off back_off',
    checking: 'backing_off back_off',
    concluding: 'concluding',
  },
  stream_failed: {
    opening: 'backing_off back_off',
    streaming: 'backing_off back_off',
    checking: 'backing_off back_off',
    concluding: 'concluding',
  },
  backoff_elapsed: { backing_off: 'reading read_lease' },
  credential_checked: { refreshing: 'reading read_lease' },
  lease_read: { reading: 'registering register', checking: 'streaming', concluding: 'ended end timeout' },
  lease_read_failed: {
    reading: 'backing_off back_off',
    checking: 'backing_off close_stream back_off',
    concluding: 'ended end timeout',
  },
  deadline_reached: {
    ready: 'concluding read_lease',
    registering: 'concluding read_lease',
    opening: 'concluding read_lease',
    streaming: 'concluding read_lease',
    checking: 'concluding',
    backing_off: 'concluding read_lease',
    refreshing: 'concluding read_lease',
    reading: 'concluding',
    concluding: 'concluding',
  },
  interrupted: {
    ready: 'ended end interrupted',
    registering: 'ended end interrupted',
    opening: 'ended close_stream end interrupted',
    streaming: 'ended close_stream end interrupted',
    checking: 'ended close_stream end interrupted',
    backing_off: 'ended end interrupted',
    refreshing: 'ended end interrupted',
    reading: 'ended end interrupted',
    concluding: 'ended end interrupted',
  },
};

describe('the table of a park', () => {
  for (const [type, happening] of Object.entries(EVENTS) as [ParkEventType, Happening][]) {
    for (const phase of PHASES) {
      const expected = COMES_TO[type][phase];
      test(`${type} in ${phase} ${expected === undefined ? 'changes nothing' : `comes to: ${expected}`}`, () => {
        const park = parkIn(phase);
        const before = park.state;
        park.on(happening);
        if (expected === undefined)
          expect({ state: park.state, actions: park.last }).toEqual({ state: before, actions: [] });
        else expect(park.glimpse).toBe(expected);
      });
    }
  }
});

describe('what passes by itself', () => {
  const passing = [null, 401, 403, 408, 429, 500, 502, 503, 507];
  test.each(passing)('a registration that fails with %p is tried again', (status) => {
    const park = parkIn('registering').on({ type: 'registration_failed', trouble: { ...UNREACHABLE, status } });
    expect(park.glimpse).toBe('backing_off back_off');
    expect(park.state.incident?.recovered).toBeFalse();
  });

  test.each(passing)('a stream that fails with %p is opened again', (status) => {
    const park = parkIn('opening').on({ type: 'stream_failed', trouble: { ...UNREACHABLE, status } });
    expect(park.glimpse).toBe('backing_off back_off');
  });

  test('the back-off doubles from two seconds to a minute, with jitter in its upper half', () => {
    const park = new DrivenPark({ deadlineMs: 10_000_000 }).on({ type: 'started' });
    const seen: number[] = [];
    for (let round = 0; round < 8; round += 1) {
      park.jitter = round % 2;
      park.on({ type: 'registration_failed', trouble: UNREACHABLE });
      seen.push(park.backoffMs);
      park.on({ type: 'backoff_elapsed' }, EVENTS.lease_read);
    }
    expect(seen).toEqual([1_000, 4_000, 4_000, 16_000, 16_000, 60_000, 30_000, 60_000]);
  });

  test('the back-off never goes past the deadline, and one that ends there is followed by the last look', () => {
    const park = parkIn('registering');
    park.nowMs = DEADLINE_MS - 10;
    park.on({ type: 'registration_failed', trouble: UNREACHABLE });
    expect(park.backoffMs).toBe(10);
    park.nowMs = DEADLINE_MS;
    expect(park.on({ type: 'backoff_elapsed' }).glimpse).toBe('concluding read_lease');
  });

  test('a failure after the deadline goes straight to the last look', () => {
    const park = parkIn('registering');
    park.nowMs = DEADLINE_MS + 1;
    expect(park.on({ type: 'registration_failed', trouble: UNREACHABLE }).glimpse).toBe('concluding read_lease');
  });

  test('a read after a back-off that is answered after the deadline leads to another, last look and to an end', () => {
    const park = parkIn('reading');
    park.nowMs = DEADLINE_MS + 1;
    expect(park.on({ type: 'lease_read', lease: leaseView({ state: 'provisioning' }) }).glimpse).toBe(
      'concluding read_lease',
    );
    park.on({ type: 'lease_read', lease: leaseView({ state: 'provisioning' }) });
    expect(park.state.phase).toBe('ended');
  });

  test('readers that were all cut at once come back spread over the whole back-off', () => {
    const park = parkIn('streaming');
    park.jitter = 0;
    expect(park.on({ type: 'stream_closed', message: 'cut' }).backoffMs).toBe(0);
    const other = parkIn('streaming');
    other.jitter = 0.999;
    expect(other.on({ type: 'stream_closed', message: 'cut' }).backoffMs).toBeCloseTo(1_998);
  });

  test('a stream that lived for long starts the back-off anew, one that is cut at once does not', () => {
    const park = parkIn('streaming');
    park.on({ type: 'stream_closed', message: 'cut' }, { type: 'backoff_elapsed' }, EVENTS.lease_read);
    park.on({ type: 'registered', wait: waitView() }, { type: 'stream_opened' });
    park.nowMs += 100;
    park.jitter = 1;
    expect(park.on({ type: 'stream_closed', message: 'cut' }).backoffMs).toBe(4_000);
    park.on({ type: 'backoff_elapsed' }, EVENTS.lease_read, { type: 'registered', wait: waitView() });
    park.on({ type: 'stream_opened' });
    park.nowMs += 30_000;
    expect(park.on({ type: 'stream_closed', message: 'cut' }).backoffMs).toBe(2_000);
  });

  test('after every back-off the lease is read once, and a grant or a loss that is found there ends the park', () => {
    const granted = parkIn('reading').on({ type: 'lease_read', lease: leaseView({ state: 'active' }) });
    expect(granted.end).toMatchObject({ outcome: 'matched', code: null, lease: { state: 'active' } });
    const lost = parkIn('reading').on({
      type: 'lease_read',
      lease: leaseView({ state: 'reaping', reap_reason: 'heartbeat_lost', error: 'boom', error_class: 'x' }),
    });
    expect(lost.end).toMatchObject({
      outcome: 'lease_lost',
      code: 'LEASE_LOST',
      error: 'boom',
      state: { lease_id: LEASE, lease_state: 'reaping', reap_reason: 'heartbeat_lost', error_class: 'x' },
    });
  });

  test('a read that the coordinator refuses costs nothing: the wait is registered anew', () => {
    expect(parkIn('reading').on({ type: 'lease_read_failed', trouble: REFUSED }).glimpse).toBe('registering register');
  });

  test('every registration has a key of its own under the same wait id', () => {
    const park = parkIn('registering');
    const first = park.last[0];
    park.on({ type: 'registration_failed', trouble: UNREACHABLE }, { type: 'backoff_elapsed' }, EVENTS.lease_read);
    const second = park.last[0];
    expect(first).toMatchObject({ type: 'register', waitId: WAIT, idempotencyKey: `${WAIT}.1` });
    expect(second).toMatchObject({ type: 'register', waitId: WAIT, idempotencyKey: `${WAIT}.2` });
  });
});

describe('a coordinator that was started again', () => {
  test('resumes the stream from the cursor', () => {
    const park = parkIn('streaming', { endsWhenDeferred: false });
    park.on({ type: 'frame', frame: { id: 'e.5', type: 'lease', data: { lease: leaseView() } } });
    park.on({ type: 'stream_closed', message: 'cut' }, { type: 'backoff_elapsed' }, EVENTS.lease_read);
    park.on({ type: 'registered', wait: waitView(null, 'e.1') });
    expect(park.last).toEqual([{ type: 'open_stream', query: { wait: WAIT }, cursor: 'e.5' }]);
  });

  test('answers the registration with the outcome of a wait that ended meanwhile', () => {
    const park = parkIn('registering').on({ type: 'registered', wait: waitView(endedWait('lease_lost', { a: 1 })) });
    expect(park.end).toMatchObject({ outcome: 'lease_lost', code: 'LEASE_LOST', state: { a: 1 }, waitLeftOpen: false });
  });

  test('that forgot the wait gets it anew under the same id, once', () => {
    const forgotten: Happening = {
      type: 'stream_failed',
      trouble: { status: 404, code: 'WAIT_NOT_FOUND', message: 'there is no wait' },
    };
    const park = parkIn('opening').on(forgotten);
    expect(park.last).toMatchObject([{ type: 'register', waitId: WAIT }]);
    expect(park.state.incident).toBeNull();
    park.on({ type: 'registered', wait: waitView(null, 'f.3') });
    expect(park.last).toMatchObject([{ type: 'open_stream', cursor: 'f.3' }]);
    expect(park.on(forgotten).end).toMatchObject({ outcome: 'error', code: 'WAIT_NOT_FOUND' });
  });

  test('of another epoch sends a snapshot from which the park goes on', () => {
    const data = {
      cursor: 'f.7',
      wait: { status: 'pending' as const, ended: null },
      leases: [leaseView({ state: 'provisioning' })],
    };
    const park = parkIn('streaming').on({ type: 'frame', frame: { id: null, type: 'cursor_expired', data } });
    expect(park.glimpse).toBe('streaming');
    expect(park.state).toMatchObject({ cursor: 'f.7', lease: { state: 'provisioning' } });
  });

  test('whose snapshot does not know the wait gets it anew, and one that ended it ends the park', () => {
    const snapshot = (wait: { status: 'ended'; ended: ReturnType<typeof endedWait> } | null): Happening => ({
      type: 'frame',
      frame: { id: null, type: 'cursor_expired', data: { cursor: 'f.7', wait, leases: [] } },
    });
    expect(parkIn('streaming').on(snapshot(null)).glimpse).toBe('registering close_stream register');
    const ended = parkIn('streaming').on(snapshot({ status: 'ended', ended: endedWait('matched') }));
    expect(ended.end?.outcome).toBe('matched');
  });
});

describe('a registration that is refused', () => {
  test('lets the wait go on unlisted: one warning, the stream first, then one read', () => {
    const park = parkIn('registering').on({ type: 'registration_failed', trouble: REFUSED });
    expect(park.last).toEqual([{ type: 'open_stream', query: { lease: LEASE }, cursor: null }]);
    expect(park.on({ type: 'stream_opened' }).last).toEqual([{ type: 'read_lease', leaseId: LEASE }]);
    park.on({ type: 'lease_read', lease: leaseView({ state: 'provisioning' }) });
    expect(park.glimpse).toBe('streaming');
    park.on({ type: 'stream_closed', message: 'cut' }, { type: 'backoff_elapsed' }, EVENTS.lease_read);
    park.on({ type: 'registration_failed', trouble: REFUSED }, { type: 'stream_opened' });
    park.on({ type: 'lease_read', lease: leaseView({ state: 'active' }) });
    expect(park.end?.outcome).toBe('matched');
    expect(park.end?.warnings).toHaveLength(1);
  });

  test('judges the frames of an unlisted wait itself', () => {
    const park = parkIn('checking').on(EVENTS.lease_read);
    park.on({ type: 'frame', frame: { id: 'e.4', type: 'lease', data: { lease: leaseView({ state: 'active' }) } } });
    expect(park.end?.outcome).toBe('matched');
  });

  test('ends the park when there is nothing else to follow', () => {
    const park = new DrivenPark({ conditions: ['timer:in=5'], leaseId: LEASE }).on({ type: 'started' });
    park.on({ type: 'registration_failed', trouble: { status: 400, code: 'invalid_condition', message: 'no' } });
    expect(park.end).toMatchObject({ outcome: 'error', code: 'invalid_condition', error: 'no' });
  });

  test('on the stream is permanent', () => {
    const park = parkIn('opening').on({ type: 'stream_failed', trouble: REFUSED });
    expect(park.end).toMatchObject({ outcome: 'error', code: 'LEASE_NOT_FOUND', incident: null });
  });
});
