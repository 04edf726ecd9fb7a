import { readFileSync } from 'node:fs';

export interface Clock {
  /** Milliseconds since the epoch; jumps when someone sets the clock. */
  wallMs(): number;
  /** Never goes back, stands still while the machine is suspended; comparable only within this process. */
  monotonicMs(): number;
  /** Counts suspended time too; comparable between the processes of one boot. */
  uptimeMs(): number;
}

let uptimeFileMissing = process.platform !== 'linux';

function uptimeFromFile(): number | null {
  if (uptimeFileMissing) return null;
  try {
    const seconds = Number.parseFloat(readFileSync('/proc/uptime', 'latin1'));
    return Number.isFinite(seconds) ? Math.round(seconds * 1000) : null;
  } catch {
    uptimeFileMissing = true;
    return null;
  }
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  uptimeMs: () => uptimeFromFile() ?? Date.now(),
};
