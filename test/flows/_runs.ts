import type {
  LeaseGlimpse,
  ParkResult,
  RunAction,
  RunEvent,
  RunOptions,
  RunState,
} from '../../src/flows/stack-run-model.ts';
import { runStep, startRun } from '../../src/flows/stack-run-rules.ts';

export const LEASE_ID = '11111111-1111-4111-8111-111111111111';

export const glimpse = (state: LeaseGlimpse['state'], changes: Partial<LeaseGlimpse> = {}): LeaseGlimpse => ({
  lease_id: LEASE_ID,
  state,
  has_connection: state === 'active',
  fencing_token: state === 'queued' ? null : 7,
  reap_reason: null,
  error: null,
  error_class: null,
  cleanup_verified: null,
  cleanup_proof: null,
  cleanup_receipt_id: null,
  ...changes,
});

export const reaped = glimpse('reaped', {
  cleanup_verified: true,
  cleanup_proof: 'signed_reap',
  cleanup_receipt_id: 'receipt-1',
});

export const parked = (outcome: ParkResult['outcome'], changes: Partial<ParkResult> = {}): RunEvent => ({
  type: 'park_ended',
  park: { outcome, code: null, message: null, lease: null, ...changes },
});

export const RUN: RunOptions = { command: 'run', cleanup: 'destroy', waitForSlot: false, parkInQueue: true };

/** Plays events through a run; answers with its last state and the actions of every step. */
export function play(
  options: Partial<RunOptions>,
  events: readonly RunEvent[],
): { state: RunState; actions: RunAction[][] } {
  let transition = startRun({ ...RUN, ...options });
  const actions = [[...transition.actions]];
  for (const event of events) {
    transition = runStep(transition.state, event);
    actions.push([...transition.actions]);
  }
  return { state: transition.state, actions };
}

export const ADMITTED: readonly RunEvent[] = [
  { type: 'claimed' },
  { type: 'admitted', lease: glimpse('queued') },
  { type: 'bound' },
];

export const ACTIVE: readonly RunEvent[] = [
  ...ADMITTED,
  parked('matched', { lease: glimpse('provisioning') }),
  parked('matched', { lease: glimpse('active') }),
  { type: 'lease_read', lease: glimpse('active') },
];

export const exited = (exitCode: number): RunEvent => ({ type: 'child_exited', exit_code: exitCode, signal: null });

export const types = (actions: readonly RunAction[] | undefined): string[] => (actions ?? []).map(({ type }) => type);
