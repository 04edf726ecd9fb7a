/**
 * The life of one coordinator process: elected by the kernel's lock beside the database, found through the discovery
 * file, with a Helper of its own, and ended by a signal or by nobody needing it. Order at the end: refuse calls, take
 * back the discovery file, say farewell, end the Helper, store a snapshot, free the lock.
 */
import { hasAnythingAlive } from '../core/views.ts';
import { SqliteLog } from '../log/sqlite-log.ts';
import { systemClock } from '../platform/clock.ts';
import { ensurePrivateDir, removeDurable, writeFileDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { tryLock } from '../platform/kernel-lock.ts';
import { logger } from '../platform/logging.ts';
import { homePaths, socketPath } from '../platform/paths.ts';
import { ownIdentity } from '../platform/processes.ts';
import type { DaemonOptions } from '../platform/self-exec.ts';
import { onTerminationSignals } from '../platform/signals.ts';
import type { DiscoveryFile } from '../protocol/discovery.ts';
import { type Assembled, assemble } from './assemble.ts';
import { HelperChild } from './helper-child.ts';
import { watchHome } from './home-watch.ts';
import { HttpApp } from './http-server.ts';
import { IdleWatch } from './idle-watch.ts';
import { type Listening, listen } from './listen.ts';
import { ensureOwnerCredential } from './local-owner.ts';
import type { ServeSettings } from './serve-settings.ts';
import type { OwnHost } from './tool.ts';

export interface RunOptions {
  home: string;
  settings: ServeSettings;
  version: string;
  ownHost: OwnHost;
  /** The Helper to keep running; null where somebody else runs one. */
  helper: DaemonOptions | null;
  /** Ends by itself when nobody needs it. */
  endsWhenIdle: boolean;
  /** Ends it, as a signal would. */
  stop?: AbortSignal;
}

const log = logger('coordinator');

/** Runs until it ends; `not_elected` at once where another process serves this database. */
export async function runCoordinator(options: RunOptions): Promise<'ended' | 'not_elected'> {
  ensurePrivateDir(options.home);
  using lock = tryLock(`${options.settings.database}.lock`);
  if (lock === null) return 'not_elected';
  const eventLog = SqliteLog.open(options.settings.database);
  const parts = await assemble({ ...options, log: eventLog, leaseTtlMs: options.settings.leaseTtlMs });
  try {
    await serveUntilEnd(parts, options);
  } finally {
    await parts.close();
  }
  return 'ended';
}

async function serveUntilEnd(parts: Assembled, options: RunOptions): Promise<void> {
  const { home, settings } = options;
  const paths = homePaths(home);
  const authenticator = await ensureOwnerCredential(parts.log, paths.ownerCredential, systemClock);
  const end = Promise.withResolvers<string>();
  let ending = false;
  const idle = options.endsWhenIdle ? watchIdle(parts, settings, () => end.resolve('idle')) : null;
  void end.promise.then(() => {
    ending = true;
  });
  const app = new HttpApp({
    coordinator: parts,
    hub: parts.hub,
    authenticator,
    onCall: () => idle?.called(),
    isEnding: () => ending,
  });
  const listening = listen({ app, address: settings.listen, socket: socketPath(home, 'coordinator') });
  const unsignal = onTerminationSignals((signal) => end.resolve(signal));
  options.stop?.addEventListener('abort', () => end.resolve('stopped'), { once: true });
  if (options.stop?.aborted) end.resolve('stopped');
  const found = `${JSON.stringify(discoveryOf(listening, options))}\n`;
  const announce = () => writeFileDurable(paths.discovery, found);
  const unwatch = watchHome({
    vital: [settings.database, `${settings.database}.lock`],
    discovery: paths.discovery,
    announce,
    onLost: (path) => {
      log.error('a file without which nothing lasts is gone', { path });
      end.resolve('home_lost');
    },
  });
  let helper: HelperChild | null = null;
  try {
    announce();
    if (options.helper !== null) helper = new HelperChild(options.helper);
    log.info('listening', { url: listening.url, socket: listening.socket, epoch: parts.engine.epoch });
    const reason = await end.promise;
    unwatch();
    log.info('ending', { reason });
    removeDurable(paths.discovery);
    await parts.hub.farewell(reason);
  } finally {
    unsignal();
    unwatch();
    idle?.stop();
    await helper?.stop();
    await listening.stop();
  }
}

function watchIdle({ engine, hub }: Assembled, { idleExitMs }: ServeSettings, onIdle: () => void): IdleWatch {
  const isNeeded = () => hasAnythingAlive(engine.state) || hub.hasWaiters;
  return new IdleWatch({ idleMs: idleExitMs, clock: systemClock, isNeeded, onIdle });
}

function discoveryOf(listening: Listening, { version, settings }: RunOptions): DiscoveryFile {
  return {
    schema_version: 1,
    url: listening.url,
    socket: listening.socket,
    identity: ownIdentity(),
    version,
    settings: settings.shown,
    started_at: new Date(systemClock.wallMs()).toISOString(),
  };
}

export function notElected(database: string): Failure {
  return new Failure('log_unavailable', `another coordinator serves ${database}`, { fields: { path: database } });
}
