/**
 * The command of a `stack run`: its own session and group, inherited stdio, the stack's environment, and an end that
 * reaches everything it started. What survives the leader is found by group, session and mark, and ended too.
 */
import { join } from 'node:path';
import { ensurePrivateDir, readTextIfPresent, removeTree } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { type ChildHandle, endProcessTree, type ProcessIdentity, spawnChild } from '../platform/processes.ts';
import { newId } from '../platform/random.ts';
import type { StackPlan } from '../protocol/stack-plan.ts';
import { recordChild } from '../stack/claim-binding.ts';
import { childEnvironment, connectionFileOf, stackVariables, writeConnectionFile } from '../stack/connection.ts';
import type { StackContext } from './stack-context.ts';

/** Carried by the command alone: a stack's services bear the lease's mark, and must outlive the command. */
const RUN_MARK = 'BOTBUDDY_RUN_MARK';
const GRACE_MS_MAX = 5_000;

export interface ChildRequest {
  readonly context: StackContext;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly plan: StackPlan;
  readonly leaseId: string;
  readonly connectionFile: string | null;
}

export interface ChildEnd {
  exit_code: number | null;
  signal: string | null;
  survivorsEnded: number;
  survivorsLeft: number;
}

export class RunChild {
  readonly #handle: ChildHandle;
  readonly #mark: { name: string; value: string };
  readonly #graceMs: number;
  readonly #privateDir: string | null;
  #ending: Promise<unknown> | null = null;

  private constructor(handle: ChildHandle, mark: string, graceMs: number, privateDir: string | null) {
    this.#handle = handle;
    this.#mark = { name: RUN_MARK, value: mark };
    this.#graceMs = graceMs;
    this.#privateDir = privateDir;
  }

  /** Throws `command_not_found`, `command_not_executable`, `invalid_arguments`. */
  static start(request: ChildRequest): RunChild {
    const { context, plan, leaseId } = request;
    const mark = `${leaseId}.${newId()}`;
    const privateDir = request.connectionFile === null ? join(context.slotDir, `run-${newId()}`) : null;
    const file = request.connectionFile ?? join(privateDir as string, 'connection.json');
    if (privateDir === null) requireEmptyFile(file);
    else ensurePrivateDir(privateDir);
    writeConnectionFile(file, connectionFileOf(plan, leaseId));
    const built = stackVariables(plan, leaseId, file);
    const env = { ...childEnvironment(context.environment, built, leaseId), [RUN_MARK]: mark };
    try {
      const handle = spawnChild({ argv: request.argv, cwd: request.cwd, env, detached: true });
      return new RunChild(handle, mark, Math.min(GRACE_MS_MAX, context.ttlMs / 3), privateDir);
    } catch (error) {
      if (privateDir !== null) removeTree(privateDir);
      throw error;
    }
  }

  get identity(): ProcessIdentity {
    return this.#handle.identity;
  }

  /** The leader's end, after everything that it left behind was ended as well. */
  async ended(): Promise<ChildEnd> {
    const { exit_code, signal } = await this.#handle.exited;
    await this.#ending;
    const left = await this.#endTree({ graceMs: this.#graceMs });
    if (this.#privateDir !== null) removeTree(this.#privateDir);
    return { exit_code, signal, survivorsEnded: left.ended, survivorsLeft: left.survivors.length };
  }

  /** The same, with the command named in the claim: one that is not would be missed by a reap, so it is ended instead. */
  async endedAndNoted(claim: { home: string; token: string }): Promise<ChildEnd> {
    try {
      await recordChild({ ...claim, child: this.identity });
    } catch (error) {
      this.stop('SIGTERM');
      await this.ended();
      throw error;
    }
    return this.ended();
  }

  /** Sends the signal to the whole group, KILL after the grace; asked again, the grace is cut short. */
  stop(signal: NodeJS.Signals): void {
    const graceMs = this.#ending === null ? this.#graceMs : 0;
    this.#ending = this.#endTree({ graceMs, firstSignal: signal });
  }

  #endTree(how: { graceMs: number; firstSignal?: NodeJS.Signals }) {
    return endProcessTree({ groups: [this.#handle.identity], mark: this.#mark, ...how });
  }
}

function requireEmptyFile(file: string): void {
  const text = readTextIfPresent(file);
  if (text === '') return;
  const problem = text === null ? 'is not there' : 'is not empty';
  throw new Failure('invalid_arguments', `--connection-file ${file} ${problem}: it must be an empty file`);
}
