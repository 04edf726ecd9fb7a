/**
 * The one table of outcomes: every code with which a call, a park or a command can end; its HTTP status, whether the
 * same call may be repeated, the hint that people get, and its exit code for each family of commands.
 */
export type ExitFamily = 'stack' | 'wait' | 'other';

export interface Outcome {
  readonly status: number;
  readonly retryable: boolean;
  readonly hint: string | null;
  readonly exit: Readonly<Record<ExitFamily, number>>;
}

const exits = (stack: number, wait = stack, other = stack): Outcome['exit'] => ({ stack, wait, other });
const INVALID = exits(4);
const BACKEND = exits(5);
const INTERNAL = exits(7);

const outcome = (status: number, exit: Outcome['exit'], hint: string | null = null, retryable = false): Outcome => ({
  status,
  retryable,
  hint,
  exit,
});

export const OUTCOMES = {
  // arguments, configuration, worktree
  invalid_arguments: outcome(400, INVALID, 'botbuddy help'),
  invalid_condition: outcome(400, INVALID, 'botbuddy help wait'),
  INVALID_CONDITION: outcome(400, INVALID, 'botbuddy help wait'),
  INVALID_UNITS: outcome(400, INVALID),
  INVALID_PRIORITY: outcome(400, INVALID),
  TOO_MANY_PORT_BLOCKS: outcome(400, INVALID),
  TOO_MANY_LABELS: outcome(400, INVALID),
  not_a_repository: outcome(400, INVALID, 'run it inside a git worktree, or `git init` first'),
  config_missing: outcome(400, INVALID, 'botbuddy help config'),
  config_invalid: outcome(400, INVALID, 'botbuddy help config'),
  driver_unsupported: outcome(400, INVALID, 'botbuddy help config'),
  stack_path_root_refused: outcome(400, INVALID),
  stack_path_outside: outcome(400, INVALID),
  setting_invalid: outcome(400, INVALID, 'botbuddy config show'),
  // local state
  state_unwritable: outcome(507, BACKEND, 'free or make writable the named path, then repeat the command'),
  state_foreign: outcome(403, BACKEND, 'set BOTBUDDY_HOME to a directory of your own'),
  port_range_full: outcome(409, BACKEND, 'botbuddy down in worktrees you are done with, or widen BOTBUDDY_PORT_RANGE'),
  claim_lock_busy: outcome(409, BACKEND, null, true),
  STACK_CONTEXT_BIND_FAILED: outcome(409, BACKEND),
  STACK_CONTEXT_ALREADY_BOUND: outcome(409, BACKEND),
  STACK_EXECUTION_MODE_MISMATCH: outcome(409, BACKEND),
  IDLE_STACK_DIFFERS: outcome(409, BACKEND),
  // admission
  SLOT_HELD: outcome(409, BACKEND),
  SLOT_REAPING: outcome(409, BACKEND),
  PORT_BLOCK_TAKEN: outcome(409, BACKEND),
  LEASE_ID_TAKEN: outcome(409, BACKEND),
  QUEUE_FULL: outcome(409, BACKEND),
  HOST_CAPACITY_BUDGET_FULL: outcome(409, BACKEND, 'ask for fewer --units, or raise BOTBUDDY_HOST_UNITS'),
  HOST_NOT_FOUND: outcome(404, BACKEND, 'botbuddy helper status'),
  HOST_KEY_MISMATCH: outcome(409, BACKEND, 'botbuddy helper status'),
  // leases, jobs, waits
  LEASE_NOT_FOUND: outcome(404, BACKEND, 'botbuddy stack list'),
  LEASE_NOT_OWNED: outcome(403, exits(3)),
  LEASE_LOST: outcome(409, exits(6, 9, 6)),
  heartbeat_unanswered: outcome(503, exits(6, 9, 6)),
  lease_failed: outcome(409, exits(6, 9, 6)),
  OLD_GENERATION: outcome(409, BACKEND),
  JOB_CLAIM_LOST: outcome(409, BACKEND),
  JOB_NOT_OPEN: outcome(409, BACKEND),
  JOB_NOT_YOURS: outcome(403, BACKEND),
  JOB_NOT_DEFERRABLE: outcome(400, BACKEND),
  CONNECTION_MISSING: outcome(400, BACKEND),
  HELPER_SUPERSEDED: outcome(409, BACKEND),
  WAIT_NOT_FOUND: outcome(404, BACKEND),
  TOO_MANY_WAITS: outcome(409, BACKEND),
  wait_abandoned: outcome(409, exits(5, 11, 5)),
  lease_cleanup_failed: outcome(409, exits(8, 12, 8)),
  // endings of a run
  HARD_TTL: outcome(408, exits(2)),
  cleanup_unproven: outcome(409, exits(8)),
  timeout: outcome(408, exits(2)),
  command_not_found: outcome(400, exits(4), 'check the name and PATH of the command after --'),
  command_not_executable: outcome(400, exits(4), 'make the command after -- executable'),
  service_not_ready: outcome(409, exits(6), 'botbuddy stack logs LEASE SERVICE'),
  service_failed: outcome(409, exits(6), 'botbuddy stack logs LEASE SERVICE'),
  prepare_failed: outcome(409, exits(6), 'botbuddy stack logs LEASE SERVICE'),
  setup_failed: outcome(409, exits(6), 'botbuddy stack logs LEASE SERVICE'),
  stack_lost: outcome(409, exits(6, 9, 6)),
  ports_in_use: outcome(409, exits(6), 'end the program that uses the named port, then repeat the command'),
  plan_mismatch: outcome(409, exits(6), 'repeat the command in its worktree'),
  stack_leftover: outcome(409, exits(6), 'botbuddy down'),
  leftover_present: outcome(409, exits(6), 'botbuddy down'),
  record_unreadable: outcome(409, exits(6), 'read helper.log in the logs directory of BOTBUDDY_HOME'),
  cleanup_still_present: outcome(409, exits(8)),
  cleanup_unknown: outcome(409, exits(8)),
  // the platform
  platform_unreachable: outcome(503, exits(2), 'botbuddy helper status', true),
  platform_auth_unavailable: outcome(401, exits(3)),
  unauthenticated: outcome(401, exits(3), 'check owner.json in BOTBUDDY_HOME'),
  forbidden_origin: outcome(403, exits(3)),
  not_found: outcome(404, BACKEND),
  method_not_allowed: outcome(405, BACKEND),
  unsupported_media_type: outcome(415, BACKEND),
  body_too_large: outcome(413, BACKEND),
  idempotency_key_reused: outcome(409, BACKEND),
  version_mismatch: outcome(426, BACKEND, 'update the older of the two'),
  embedded_start_failed: outcome(503, BACKEND, 'read coordinator.log in the logs directory of BOTBUDDY_HOME', true),
  overloaded: outcome(503, BACKEND, null, true),
  coordinator_ending: outcome(503, BACKEND, null, true),
  slow_reader: outcome(503, BACKEND, null, true),
  log_unavailable: outcome(503, BACKEND, null, true),
  log_corrupt: outcome(500, BACKEND, 'restore the named file from a backup, or move it away to begin anew'),
  log_newer: outcome(426, BACKEND, 'update botbuddy: a newer version wrote this database'),
  interrupted: outcome(499, exits(130)),
  internal: outcome(500, INTERNAL, 'this is a bug: please report it with the receipt'),
} as const satisfies Record<string, Outcome>;

export type OutcomeCode = keyof typeof OUTCOMES;

export function outcomeOf(code: string): Outcome {
  return Object.hasOwn(OUTCOMES, code) ? OUTCOMES[code as OutcomeCode] : OUTCOMES.internal;
}

export function exitCodeOf(code: string, family: ExitFamily): number {
  return outcomeOf(code).exit[family];
}

/** Exit code of a command that a signal ended. */
export const SIGNAL_EXIT: Readonly<Record<string, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
