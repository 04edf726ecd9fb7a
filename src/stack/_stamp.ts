/**
 * What was already done to a data directory. A step that began and is not done leaves the directory in no known state:
 * it is emptied and everything is done anew. The stamp is removed before the data, and written after it.
 */
import { ensurePrivateDir, pathExists, removeDurable, removeTree } from '../platform/durable-files.ts';
import { type Stamp, stampSchema } from '../protocol/stack-records.ts';
import { readRecord, writeRecord } from './_records.ts';
import type { SlotPaths } from './slot.ts';

export const SETUP_STEP = 'setup';
export const prepareStep = (service: string): string => `prepare ${service}`;

export class DataStamp {
  readonly #paths: SlotPaths;
  #steps: Stamp['steps'];

  private constructor(paths: SlotPaths, steps: Stamp['steps']) {
    this.#paths = paths;
    this.#steps = steps;
  }

  /** The directory is there on return, empty unless all that was begun in it is done. */
  static open(paths: SlotPaths): DataStamp {
    const stamp = readRecord(paths.stamp, stampSchema);
    const steps = stamp === null || stamp === 'unreadable' ? null : stamp.steps;
    const known = steps !== null && pathExists(paths.data) && Object.values(steps).every((step) => step === 'done');
    if (!known) eraseData(paths);
    ensurePrivateDir(paths.data);
    const opened = new DataStamp(paths, known ? steps : {});
    opened.#write();
    return opened;
  }

  isDone(step: string): boolean {
    return this.#steps[step] === 'done';
  }

  mark(step: string, how: 'begun' | 'done'): void {
    this.#steps = { ...this.#steps, [step]: how };
    this.#write();
  }

  #write(): void {
    writeRecord(this.#paths.stamp, { schema_version: 1, steps: this.#steps });
  }
}

export function eraseData(paths: SlotPaths): void {
  removeDurable(paths.stamp);
  removeTree(paths.data);
}
