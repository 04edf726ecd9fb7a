import { describe, expect, test } from 'bun:test';
import {
  type HeartbeatAction,
  type HeartbeatEvent,
  type HeartbeatState,
  heartbeatStep,
  initialHeartbeat,
} from '../../src/client/heartbeat-rules.ts';

const EVERY = 20_000;
const TTL = 60_000;
const NO_ANSWER = { status: null, code: 'ECONNREFUSED', message: 'nobody there' };

type WithoutMoment<E> = E extends unknown ? Omit<E, 'at'> : never;

class DrivenHeart {
  state: HeartbeatState = initialHeartbeat({ everyMs: EVERY, ttlMs: TTL });
  nowMs = 1_000;
  sleptMs = 500;
  last: readonly HeartbeatAction[] = [];

  on(happening: WithoutMoment<HeartbeatEvent>): this {
    const at = { nowMs: this.nowMs, uptimeMs: this.nowMs + this.sleptMs, wallMs: this.nowMs, jitter: 1 };
    const step = heartbeatStep(this.state, { ...happening, at } as HeartbeatEvent);
    this.state = step.state;
    this.last = step.actions;
    return this;
  }

  /** Awake time passes to the moment for which the timer was set. */
  timer(): this {
    this.nowMs = this.state.timerAtMs;
    return this.on({ type: 'timer' });
  }

  get asks(): boolean {
    return this.last.some(({ type }) => type === 'touch');
  }

  get timerMs(): number | null {
    const set = this.last.find(({ type }) => type === 'set_timer');
    return set?.type === 'set_timer' ? set.ms : null;
  }

  get loss() {
    const lost = this.last.find(({ type }) => type === 'lost');
    return lost?.type === 'lost' ? lost.loss : null;
  }
}

const started = () => new DrivenHeart().on({ type: 'started' });

describe('a heartbeat', () => {
  test('touches at once, and then every third of the TTL', () => {
    const heart = started();
    expect(heart.asks).toBeTrue();
    heart.nowMs += 5;
    expect(heart.on({ type: 'answered' }).timerMs).toBe(EVERY - 5);
    expect(heart.timer().asks).toBeTrue();
  });

  test('does not ask twice while an answer is due', () => {
    const heart = started();
    heart.nowMs += EVERY;
    expect(heart.on({ type: 'timer' }).asks).toBeFalse();
  });

  test.each(['LEASE_LOST', 'LEASE_NOT_FOUND'])('fences at once on %s', (code) => {
    const heart = started().on({ type: 'failed', trouble: { status: 409, code, message: 'gone' } });
    expect(heart.loss).toMatchObject({ code, message: 'gone' });
    expect(heart.on({ type: 'timer' }).last).toEqual([]);
  });

  test('tries again soon after a failure, and doubles up to a quarter of its interval', () => {
    const heart = started();
    const pauses: (number | null)[] = [];
    for (let failure = 0; failure < 6; failure += 1) {
      pauses.push(heart.on({ type: 'failed', trouble: NO_ANSWER }).timerMs);
      heart.state = { ...heart.state, aliveAtMs: heart.nowMs };
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
  });
});

describe('an outage', () => {
  test('shorter than the TTL is ridden out and stays on the record as recovered', () => {
    const heart = started().on({ type: 'answered' });
    heart.timer();
    while (heart.nowMs < TTL - 5_000) heart.on({ type: 'failed', trouble: NO_ANSWER }).timer();
    expect(heart.loss).toBeNull();
    heart.on({ type: 'answered' });
    expect(heart.state.incident).toMatchObject({ reason: 'platform_unreachable', recovered: true });
    expect(heart.state.failures).toBe(0);
  });

  test('longer than the TTL is a loss of its own kind, counted from the last touch that was answered', () => {
    const heart = started().on({ type: 'answered' });
    heart.timer();
    for (let step = 0; step < 100 && heart.loss === null; step += 1) {
      if (heart.state.phase === 'asking') heart.on({ type: 'failed', trouble: NO_ANSWER });
      else heart.timer();
    }
    expect(heart.loss?.code).toBe('heartbeat_unanswered');
    expect(heart.loss?.message).toContain('nobody there');
    expect(heart.nowMs).toBe(1_000 + TTL);
  });

  test('in which nothing comes back at all ends the same way', () => {
    const heart = started().timer();
    expect(heart.loss?.code).toBe('heartbeat_unanswered');
    expect(heart.nowMs).toBe(1_000 + TTL);
  });

  test('of the authentication is an incident of that reason', () => {
    const heart = started().on({ type: 'failed', trouble: { status: 401, code: 'unauthenticated', message: 'no' } });
    expect(heart.state.incident?.reason).toBe('platform_auth_unavailable');
  });
});

describe('after a suspend', () => {
  test('the lease is asked about first, however long it was', () => {
    const heart = started().on({ type: 'answered' });
    heart.sleptMs += 9 * 60_000;
    heart.nowMs += 10;
    expect(heart.on({ type: 'timer' }).asks).toBeTrue();
    expect(heart.loss).toBeNull();
  });

  test('and after a stop of this process alike, silence proves nothing until one beat has passed', () => {
    const heart = started().on({ type: 'answered' });
    heart.nowMs += 10 * TTL;
    expect(heart.on({ type: 'timer' }).asks).toBeTrue();
    expect(heart.timerMs).toBe(EVERY);
    expect(heart.timer().loss?.code).toBe('heartbeat_unanswered');
  });

  test('a touch that was under way all the time is tried again at once', () => {
    const heart = started();
    heart.nowMs += 10 * TTL;
    heart.on({ type: 'failed', trouble: NO_ANSWER });
    expect(heart.loss).toBeNull();
    expect(heart.timerMs).toBe(0);
    expect(heart.timer().asks).toBeTrue();
  });

  test('the answer decides: lost is lost, and alive goes on', () => {
    const heart = started().on({ type: 'answered' });
    heart.nowMs += 10 * TTL;
    heart.on({ type: 'timer' }).on({ type: 'answered' });
    expect(heart.timerMs).toBe(EVERY);
    heart.timer();
    heart.on({ type: 'failed', trouble: { status: 409, code: 'LEASE_LOST', message: 'reaped' } });
    expect(heart.loss?.code).toBe('LEASE_LOST');
  });
});
