/**
 * Which coordinator a client talks to: the named one, or the embedded one of the home, which is started when it is
 * absent. What was found is kept until a connection to it fails.
 */
import type { Environment } from '../platform/environment.ts';
import { type Deadline, withTimeout } from '../platform/timers.ts';
import type { DiscoveryFile } from '../protocol/discovery.ts';
import { findCoordinator } from './discovery.ts';
import type { Address } from './http-exchange.ts';

export interface Found extends Address {
  /** Of the embedded one. */
  discovery: DiscoveryFile | null;
}

export interface FinderOptions {
  home: string;
  environment: Environment;
  /** The shared coordinator; null means the embedded one. */
  serverUrl: string | null;
  /** Whether an absent embedded coordinator is started; asked each time. */
  mayStart?: () => boolean;
  /** How it is started; this program's own hidden command by default. */
  startArgv?: readonly string[];
  startWithinMs?: number;
}

export class CoordinatorFinder {
  readonly #options: FinderOptions;
  #known: Found | null = null;
  #starting: Promise<DiscoveryFile> | null = null;

  constructor(options: FinderOptions) {
    this.#options = options;
  }

  get isEmbedded(): boolean {
    return this.#options.serverUrl === null;
  }

  /** Null when there is none and none may be started, or when the deadline came first; the start itself goes on. */
  async find(deadline: Deadline, mayStart: boolean): Promise<Found | null> {
    const { home, serverUrl } = this.#options;
    if (serverUrl !== null) return { url: serverUrl, socket: null, discovery: null };
    this.#known ??= asFound(findCoordinator(home));
    if (this.#known !== null) return this.#known;
    if (!mayStart || this.#options.mayStart?.() === false) return null;
    this.#starting ??= this.#start();
    const started = await withTimeout(this.#starting, deadline.remainingMs());
    if (started === 'timed_out') return null;
    this.#known = asFound(started);
    return this.#known;
  }

  /** After a failed connection: looks at the discovery file again. True when it names another coordinator, or none. */
  lookAgain(failed: Found): boolean {
    if (failed.discovery === null) return false;
    const now = findCoordinator(this.#options.home);
    this.#known = asFound(now);
    return now === null || now.identity.pid !== failed.discovery.identity.pid || now.url !== failed.discovery.url;
  }

  async #start(): Promise<DiscoveryFile> {
    const { home, environment, startArgv, startWithinMs } = this.#options;
    try {
      const { startEmbedded } = await import('./embedded-start.ts');
      return await startEmbedded({
        home,
        environment,
        ...(startArgv === undefined ? {} : { argv: startArgv }),
        ...(startWithinMs === undefined ? {} : { withinMs: startWithinMs }),
      });
    } finally {
      this.#starting = null;
    }
  }
}

function asFound(discovery: DiscoveryFile | null): Found | null {
  return discovery === null ? null : { url: discovery.url, socket: discovery.socket, discovery };
}
