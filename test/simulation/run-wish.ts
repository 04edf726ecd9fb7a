/** Where a simulated run starts and what it was asked for. */
import type { RunOptions } from '../../src/flows/stack-run-model.ts';
import type { SimHost } from './world.ts';

export interface RunPlace {
  readonly host: SimHost;
  readonly slot: string;
  readonly worktree: string;
}

export interface RunWish {
  readonly options: RunOptions;
  readonly units: number;
  readonly priority: number;
  readonly blocksNeeded: number;
  readonly timeoutMs: number;
  readonly provisionTimeoutMs: number;
  readonly reapTimeoutMs: number;
  readonly idleTtlMs: number;
  readonly hardTtlMs: number | null;
  readonly configVersion: number;
  readonly command: { readonly ms: number; readonly exitCode: number; readonly ignoresTerm: boolean };
}
