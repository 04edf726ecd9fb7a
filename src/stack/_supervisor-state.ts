/** The supervisor's state as it stands on the disk: written before anybody may rely on it. */

import { Failure } from '../platform/failure.ts';
import type { Logger } from '../platform/logging.ts';
import type { ProcessIdentity } from '../platform/processes.ts';
import { ownIdentity } from '../platform/processes.ts';
import type { Creation, StartedGroup, SupervisorState } from '../protocol/stack-records.ts';
import { writeRecord } from './_records.ts';
import type { ServiceEnded } from './driver.ts';

export class SupervisorRecord {
  #state: SupervisorState;
  readonly #path: string;
  readonly #log: Logger;

  constructor(path: string, creation: Creation, log: Logger) {
    this.#path = path;
    this.#log = log;
    this.#state = {
      schema_version: 1,
      identity: ownIdentity(),
      lease_id: creation.lease_id,
      fencing_token: creation.fencing_token,
      plan_digest: creation.plan_digest,
      phase: 'waiting',
      failure: null,
      groups: [],
      service_ended: [],
      stopped_because: null,
    };
  }

  get state(): Readonly<SupervisorState> {
    return this.#state;
  }

  /** Throws when it cannot be written: then nothing may be done in reliance on it. */
  write(change: Partial<SupervisorState>): void {
    this.#state = { ...this.#state, ...change };
    writeRecord(this.#path, this.#state);
  }

  /** For what has happened already, whether the disk takes it or not. */
  note(change: Partial<SupervisorState>): void {
    try {
      this.write(change);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.#log.error(error.message, { code: error.code });
    }
  }

  started(group: StartedGroup): void {
    this.write({ groups: [...this.#state.groups, group] });
  }

  forget(identity: ProcessIdentity): void {
    const isOther = (group: StartedGroup) => group.identity.pid !== identity.pid;
    this.note({ groups: this.#state.groups.filter(isOther) });
  }

  serviceEnded(ended: ServiceEnded): void {
    this.note({ service_ended: [...this.#state.service_ended, ended] });
  }
}
