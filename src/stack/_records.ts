/** Records of a stack, read and written; what they hold is fixed in the protocol. */
import { listDir, readTextIfPresent, writeFileDurable } from '../platform/durable-files.ts';
import { jsonOf } from './claim-files.ts';

interface Schema<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false };
}

/** Null when it is missing; `unreadable` when it is there and is not what it should be. */
export function readRecord<T>(path: string, schema: Schema<T>): T | null | 'unreadable' {
  const text = readTextIfPresent(path);
  if (text === null) return null;
  const parsed = schema.safeParse(jsonOf(text));
  return parsed.success ? parsed.data : 'unreadable';
}

export function writeRecord(path: string, record: unknown): void {
  writeFileDurable(path, `${JSON.stringify(record)}\n`);
}

/** Names of the directories in which a stack may be. */
export function slotDirNames(stacks: string): string[] {
  return listDir(stacks).filter((name) => /^[a-z2-7]{12}$/.test(name));
}
