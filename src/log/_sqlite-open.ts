/**
 * Opens the database of a log, or makes a new one in a single step, so that a file which exists is always whole: one
 * that is empty, damaged, foreign or newer is refused and never written to.
 */
import { Database } from 'bun:sqlite';
import { createExclusive, pathExists } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { newId } from '../platform/random.ts';
import { corrupt, onDatabase, sqliteFailure } from './_sqlite-failure.ts';
import schema from './schema.sql' with { type: 'text' };

/** 'BBdy': tells our databases from other SQLite files. */
const APPLICATION_ID = 0x42426479;
export const SCHEMA_VERSION = 1;
const BUSY_TIMEOUT_MS = 5_000;

export function openDatabase(path: string): Database {
  if (!pathExists(path)) createDatabase(path);
  const database = onDatabase(path, 'open', () => new Database(path, { readwrite: true, create: false }));
  try {
    checkIdentity(database, path);
    prepareConnection(database);
    checkWhole(database, path);
    return database;
  } catch (error) {
    database.close();
    throw sqliteFailure(path, 'open', error);
  }
}

function createDatabase(path: string): void {
  const journal = `${path}-wal`;
  if (pathExists(journal)) throw corrupt(path, `is missing, though its journal ${journal} is there`);
  const blank = new Database(':memory:');
  try {
    blank.run('BEGIN');
    blank.run(schema);
    blank.run('INSERT INTO meta (name, value) VALUES (?, ?)', ['epoch', newId()]);
    blank.run('COMMIT');
    blank.run(`PRAGMA application_id = ${APPLICATION_ID}`);
    blank.run(`PRAGMA user_version = ${SCHEMA_VERSION}`);
    createExclusive(path, blank.serialize());
  } finally {
    blank.close();
  }
}

function checkIdentity(database: Database, path: string): void {
  if (pragma(database, 'application_id') !== APPLICATION_ID) throw corrupt(path, 'is not one of ours');
  const version = pragma(database, 'user_version');
  if (typeof version === 'number' && version > SCHEMA_VERSION) {
    throw new Failure('log_newer', `the database ${path} was written by a newer version (schema ${version})`, {
      fields: { path, version, known: SCHEMA_VERSION },
    });
  }
}

function prepareConnection(database: Database): void {
  database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  database.run('PRAGMA journal_mode = WAL');
  database.run('PRAGMA synchronous = FULL');
  database.run('PRAGMA fullfsync = ON');
  database.run('PRAGMA checkpoint_fullfsync = ON');
}

function checkWhole(database: Database, path: string): void {
  const finding = pragma(database, 'quick_check(1)');
  if (finding !== 'ok') throw corrupt(path, `is damaged: ${String(finding)}`);
}

function pragma(database: Database, name: string): unknown {
  const row = database.query(`PRAGMA ${name}`).get() as Record<string, unknown> | null;
  return row === null ? null : Object.values(row)[0];
}
