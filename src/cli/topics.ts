/** What `botbuddy help TOPIC` explains besides the commands. Made from the tables where there is one. */
import { CONDITION_TYPES } from '../protocol/conditions.ts';

const EXIT_CODES = `
exit codes of stack and down
  0          ok
  1          queued (stack up --no-wait)
  2          time-out
  3          authentication
  4          invalid arguments, configuration or worktree
  5          the coordinator or its rules said no
  6          the lease failed or was lost
  7          a bug in botbuddy
  8          cleanup is not proven: the receipt has three commands to go on with
  129 130 143  ended by SIGHUP, SIGINT, SIGTERM
  other      the command's own exit code; child_exit_code on the receipt tells

exit codes of wait
  0 matched · 2 time-out · 3 authentication · 4 invalid · 5 backend · 7 internal · 9 lease lost
  11 abandoned · 12 cleanup of the lease failed · 129 130 143 signals`;

const RECEIPTS = `
Every command ends with one JSON object, the receipt: the last line of stdout, or --receipt-file P.
It has at most 10240 bytes (--receipt-max-bytes); truncated tells when something was left out.

  outcome        completed, failed, queued, idle, released, timeout, error, interrupted
  code           which error, from one table; null when there is none
  exit_code      the exit code of botbuddy; child_exit_code is the command's own
  cleanup        true: proven; false: not proven, see cleanup_error and recovery;
                 null: none was needed; {"idle": true}: the stack is kept for the next run
  fenced         the lease was lost, or its cleanup is unproven
  port_block     whether the ports were released, by which proof, or why they are kept
  platform_incident  trouble with the coordinator during a wait, and whether it passed
  recovery       commands to paste when the cleanup is not proven`;

const CONFIG = `
botbuddy.toml stands in the root of the worktree:

  [stack]
  driver = "process"
  units = 1
  ports = ["db"]
  setup = [["npm", "run", "migrate"]]        # once, after the services of a new stack are ready

  [stack.service.db]
  prepare = [["initdb", "-D", "{dir}/db", "-U", "postgres", "-A", "trust"]]
  command = ["postgres", "-D", "{dir}/db", "-p", "{port.db}", "-k", "{dir}"]
  ready   = { tcp = "db", timeout = "20s" }  # or http, or exec
  stop    = { signal = "SIGINT", grace = "10s" }

  [stack.env]
  DATABASE_URL = "postgres://postgres@127.0.0.1:{port.db}/postgres"

Texts may use {dir}, {host}, {port.NAME}, {project}, {lease}. Durations: 90, 90s, 5m, 2h, 250ms.
More keys: pass_env, on_idle ("destroy" or "stop"), idle_ttl, hard_ttl, and cwd of a service.`;

const CONDITIONS = (): string =>
  `conditions of botbuddy wait\n${Object.values(CONDITION_TYPES)
    .map(({ sentence }) => `  ${sentence}`)
    .join('\n')}`;

export const TOPICS: Readonly<Record<string, () => string>> = {
  'exit-codes': () => EXIT_CODES,
  receipts: () => RECEIPTS,
  config: () => CONFIG,
  conditions: CONDITIONS,
};
