/**
 * Sees to it that this coordinator can be found, and that what it acknowledges is still somewhere: a discovery file
 * that went away is written again; without its database or lock a coordinator must end.
 */
import { pathExists } from '../platform/durable-files.ts';
import { logger } from '../platform/logging.ts';
import { every } from '../platform/timers.ts';

export interface HomeWatchOptions {
  /** Without one of these, nothing that is acknowledged would last. */
  vital: readonly string[];
  discovery: string;
  announce: () => void;
  onLost: (path: string) => void;
  lookMs?: number;
}

const LOOK_MS = 2_000;

const log = logger('home-watch');

/** Looks until the returned function is called. */
export function watchHome({ vital, discovery, announce, onLost, lookMs = LOOK_MS }: HomeWatchOptions): () => void {
  const stop = every(lookMs, () => {
    try {
      const lost = vital.find((path) => !pathExists(path));
      if (lost !== undefined) {
        stop();
        onLost(lost);
      } else if (!pathExists(discovery)) announce();
    } catch (error) {
      log.warn('the home cannot be looked at', { error });
    }
  });
  return stop;
}
