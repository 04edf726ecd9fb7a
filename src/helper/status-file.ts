/** `helper.json` in the home: who the Helper is and what it does, for people and commands. A hint; the lock decides. */
import { writeFileDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { logger } from '../platform/logging.ts';
import type { ProcessIdentity } from '../platform/processes.ts';

const log = logger('helper.status');

/** A file that only tells another time of the same is not worth more writes. */
const AGE_MS_MAX = 5_000;

export interface HelperStatus {
  schema_version: 1;
  identity: ProcessIdentity;
  version: string;
  incarnation: string;
  host_id: string;
  host_key: string;
  key_id: string;
  capacity_units: number;
  started_at: string;
  coordinator: 'attached' | 'gone';
  last_beacon_at: string | null;
  leases: { lease_id: string; state: string }[];
  jobs: { job_id: string; kind: string; lease_id: string; stage: string }[];
}

export class StatusFile {
  readonly #path: string;
  #written = '';
  #writtenAt = Number.NEGATIVE_INFINITY;

  constructor(path: string) {
    this.#path = path;
  }

  /** Never fails its caller: nothing but a display hangs on it. */
  write(status: HelperStatus, monotonicMs: number): void {
    const { last_beacon_at, ...rest } = status;
    const text = JSON.stringify(rest);
    if (text === this.#written && monotonicMs - this.#writtenAt < AGE_MS_MAX) return;
    try {
      writeFileDurable(this.#path, `${JSON.stringify({ ...rest, last_beacon_at })}\n`);
      this.#written = text;
      this.#writtenAt = monotonicMs;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      log.warn('the status file cannot be written', { error });
    }
  }
}
