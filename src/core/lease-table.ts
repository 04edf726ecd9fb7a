/**
 * What may happen to a lease in each state, as total tables: a missing cell does not compile.
 * Owns no behaviour: `apply.ts` takes the moves from here, the request files take the answers. Source: the lease
 * states of the product's stack design.
 */
import type { LeaseState } from './model.ts';

export type LeaseMove = 'grant' | 'readopt' | 'activate' | 'defer' | 'idle' | 'reap' | 'reaped' | 'reap_failed';

const never = 'impossible';

/** The state that a move leads to. `impossible` is an assertion, since the deciding code has refused it before. */
export const LEASE_MOVES: Record<LeaseState, Record<LeaseMove, LeaseState | typeof never>> = {
  queued: {
    grant: 'provisioning',
    readopt: never,
    activate: never,
    defer: never,
    idle: never,
    reap: 'reaping',
    reaped: never,
    reap_failed: never,
  },
  provisioning: {
    grant: never,
    readopt: never,
    activate: 'active',
    defer: 'queued',
    idle: never,
    reap: 'reaping',
    reaped: never,
    reap_failed: never,
  },
  active: {
    grant: never,
    readopt: never,
    activate: never,
    defer: never,
    idle: 'idle',
    reap: 'reaping',
    reaped: never,
    reap_failed: never,
  },
  idle: {
    grant: never,
    readopt: 'provisioning',
    activate: never,
    defer: never,
    idle: never,
    reap: 'reaping',
    reaped: never,
    reap_failed: never,
  },
  reaping: {
    grant: never,
    readopt: never,
    activate: never,
    defer: never,
    idle: never,
    reap: never,
    reaped: 'reaped',
    reap_failed: 'reap_failed',
  },
  reap_failed: {
    grant: never,
    readopt: never,
    activate: never,
    defer: never,
    idle: never,
    reap: 'reaping',
    reaped: never,
    reap_failed: never,
  },
  reaped: {
    grant: never,
    readopt: never,
    activate: never,
    defer: never,
    idle: never,
    reap: never,
    reaped: never,
    reap_failed: never,
  },
};

/** `fenced`: the holder is told that it has lost the lease. */
export const TOUCH_ANSWER: Record<LeaseState, 'renewed' | 'fenced'> = {
  queued: 'renewed',
  provisioning: 'renewed',
  active: 'renewed',
  idle: 'fenced',
  reaping: 'fenced',
  reap_failed: 'fenced',
  reaped: 'fenced',
};

export type ReleaseAction = 'go_idle' | 'reap' | 'retry_reap' | 'keep';

export const RELEASE_ACTION: Record<LeaseState, Record<'idle' | 'reap', ReleaseAction>> = {
  queued: { idle: 'reap', reap: 'reap' },
  provisioning: { idle: 'reap', reap: 'reap' },
  active: { idle: 'go_idle', reap: 'reap' },
  idle: { idle: 'keep', reap: 'reap' },
  reaping: { idle: 'keep', reap: 'keep' },
  reap_failed: { idle: 'keep', reap: 'retry_reap' },
  reaped: { idle: 'keep', reap: 'keep' },
};

export type SlotAnswer = 'readopt' | 'held' | 'already_bound' | 'being_reaped';

/** A request for a slot that has a live lease: what its state means for its own agent and for another one. */
export const SLOT_ANSWER: Record<Exclude<LeaseState, 'reaped'>, Record<'own' | 'other', SlotAnswer>> = {
  queued: { own: 'already_bound', other: 'held' },
  provisioning: { own: 'already_bound', other: 'held' },
  active: { own: 'already_bound', other: 'held' },
  idle: { own: 'readopt', other: 'held' },
  reaping: { own: 'being_reaped', other: 'held' },
  reap_failed: { own: 'being_reaped', other: 'held' },
};
