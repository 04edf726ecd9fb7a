import { Database } from 'bun:sqlite';
import { describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SequencedEvent } from '../../src/core/events.ts';
import { openDatabase, SCHEMA_VERSION } from '../../src/log/_sqlite-open.ts';
import { SqliteLog } from '../../src/log/sqlite-log.ts';
import { newId } from '../../src/platform/random.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { describeEventLog } from './conformance.ts';

describeEventLog('in SQLite', () => {
  const dir = makeTempDir('bb-log-');
  return { open: () => SqliteLog.open(join(dir.path, 'log.db')), dispose: () => dir[Symbol.dispose]() };
});

const NOTHING = { idempotency: [], archive: [] };

const beacon = (seq: number, hostId = 'h'): SequencedEvent => ({
  seq,
  at: seq,
  event: { type: 'host_beaconed', host_id: hostId, capacity_units: 1 },
});

const append = (log: SqliteLog, seq: number, hostId?: string) =>
  log.commit(NOTHING, () => ({ batchId: newId(), events: [beacon(seq, hostId)], archive: [], replies: [], at: seq }));

async function madeLog(path: string, events = 3): Promise<void> {
  const log = SqliteLog.open(path);
  await log.load();
  for (let seq = 1; seq <= events; seq += 1) await append(log, seq);
  await log.close();
}

/** Changes the file behind the log's back. */
function tamper(path: string, ...statements: string[]): void {
  const database = new Database(path);
  for (const sql of statements) database.run(sql);
  database.close();
}

describe('the files of the SQLite log', () => {
  test('are readable by their owner alone, whatever the umask', async () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    const before = process.umask(0o000);
    try {
      const log = SqliteLog.open(path);
      await log.load();
      await append(log, 1);
      for (const file of [path, `${path}-wal`, `${path}-shm`]) expect(statSync(file).mode & 0o777).toBe(0o600);
      await log.close();
    } finally {
      process.umask(before);
    }
  });

  test('are written ahead and synchronised with every commit, to the platter on macOS', async () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    const database = openDatabase(path);
    const log = SqliteLog.open(path, database);
    expect(database.query('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    expect(database.query('PRAGMA synchronous').get()).toEqual({ synchronous: 2 });
    expect(database.query('PRAGMA fullfsync').get()).toEqual({ fullfsync: 1 });
    await log.close();
  });
});

describe('a database that cannot be trusted is refused at the start, by name, and left as it is', () => {
  const refusal = (path: string): unknown => {
    const before = readFileSync(path);
    try {
      void SqliteLog.open(path).close();
      return null;
    } catch (error) {
      return error;
    } finally {
      expect(readFileSync(path).equals(before)).toBe(true);
    }
  };

  test('an empty file is not an empty log', () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    writeFileSync(path, '');
    expect(refusal(path)).toMatchObject({ code: 'log_corrupt', fields: { path } });
  });

  test('a file of something else', () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    writeFileSync(path, 'this is no database, though it is long enough to be one. '.repeat(200));
    expect(refusal(path)).toMatchObject({ code: 'log_corrupt' });
  });

  test('a database of another program', () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    tamper(path, 'CREATE TABLE event (seq INTEGER PRIMARY KEY)');
    expect(refusal(path)).toMatchObject({ code: 'log_corrupt' });
  });

  test('a newer schema', async () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    await madeLog(path);
    tamper(path, `PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
    expect(refusal(path)).toMatchObject({ code: 'log_newer', fields: { version: SCHEMA_VERSION + 1 } });
  });

  test('a file whose middle was overwritten', async () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    await madeLog(path, 200);
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 4096 * 2, 4096 * 8);
    writeFileSync(path, bytes);
    expect(refusal(path)).toMatchObject({ code: 'log_corrupt' });
  });

  test('a truncated file', async () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    await madeLog(path, 200);
    writeFileSync(path, readFileSync(path).subarray(0, 4096 * 3));
    expect(refusal(path)).toMatchObject({ code: 'log_corrupt' });
  });

  test('a journal without its database', async () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    writeFileSync(`${path}-wal`, 'left over');
    expect(() => SqliteLog.open(path)).toThrow(expect.objectContaining({ code: 'log_corrupt' }));
    expect(existsSync(path)).toBe(false);
  });
});

describe('a log whose rows do not fit together is refused when it is loaded', () => {
  const refusalOf = async (...statements: string[]): Promise<unknown> => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    await madeLog(path);
    tamper(path, ...statements);
    const log = SqliteLog.open(path);
    const failure = await log.load().catch((error: unknown) => error);
    await log.close();
    return failure;
  };

  test.each([
    ['a missing event in the middle', 'DELETE FROM event WHERE seq = 2', { code: 'log_corrupt', fields: { seq: 2 } }],
    ['a missing event at the end', 'DELETE FROM event WHERE seq = 3', { code: 'log_corrupt', fields: { seq: 3 } }],
    ['a head that is behind', 'UPDATE head SET seq = 2', { code: 'log_corrupt' }],
    ['no head', 'DELETE FROM head', { code: 'log_corrupt' }],
    ['an event that does not parse', "UPDATE event SET body = '{' WHERE seq = 2", { code: 'log_corrupt' }],
    ['an event of a newer program', 'UPDATE event SET version = 99 WHERE seq = 2', { code: 'log_newer' }],
    ['a snapshot that does not parse', "INSERT INTO snapshot VALUES (2, '{')", { code: 'log_corrupt' }],
  ])('%s', async (_what, sql, expected) => {
    expect(await refusalOf(sql)).toMatchObject(expected);
  });
});

describe('a disk that does not take more', () => {
  test('a full database refuses the commit, keeps what was there, and takes the next one when there is room', async () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'log.db');
    await madeLog(path, 1);
    const database = openDatabase(path);
    const log = SqliteLog.open(path, database);
    await log.load();
    const pages = (database.query('PRAGMA page_count').get() as { page_count: number }).page_count;
    database.run(`PRAGMA max_page_count = ${pages}`);
    await expect(append(log, 2, 'x'.repeat(200_000))).rejects.toMatchObject({
      code: 'state_unwritable',
      fields: { path, errno: 'SQLITE_FULL' },
    });
    expect(await append(log, 2)).toEqual({ seq: 2 });
    database.run('PRAGMA max_page_count = 1073741823');
    expect(await append(log, 3, 'x'.repeat(200_000))).toEqual({ seq: 3 });
    expect((await log.load()).tail).toHaveLength(3);
    await log.close();
  });

  test('a directory that is gone is named', () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'missing', 'log.db');
    expect(() => SqliteLog.open(path)).toThrow(expect.objectContaining({ code: 'state_unwritable' }));
    rmSync(dir.path, { recursive: true });
  });
});
