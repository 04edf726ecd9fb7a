/** Which blocks a command would get now, without claiming any. Ports are probed; nobody is asked and nothing is written. */
import { portIsFree } from '../platform/port-probe.ts';
import { sha256Hex } from '../platform/random.ts';
import type { PortBlock } from '../protocol/claim.ts';
import { readInventory } from './claim-files.ts';
import { chooseBlock, wantedBase } from './claim-rules.ts';
import type { SlotIdentity } from './slot.ts';

export interface PreviewQuestion {
  readonly home: string;
  readonly slot: SlotIdentity;
  readonly portsNeeded: number;
  readonly range: { readonly first: number; readonly last: number };
  readonly size: number;
}

export interface ClaimPreview {
  readonly blocks: PortBlock[];
  readonly wanted: number;
  /** Why a command would be refused; null when it would not. */
  readonly refused: string | null;
}

export function claimPreview({ home, slot, portsNeeded, range, size }: PreviewQuestion): ClaimPreview {
  const inventory = readInventory(home);
  const wanted = wantedBase(Number.parseInt(sha256Hex(slot.slot).slice(0, 8), 16), { ...range, size });
  const own = inventory.claims.filter((claim) => claim.slot === slot.slot);
  if (own.length > 0) return { blocks: own.map(({ port_base }) => ({ port_base, size })), wanted, refused: null };
  const needed = Math.max(1, Math.ceil(portsNeeded / (size - 1)));
  const claimed: PortBlock[] = [...inventory.claims];
  const busyBases = new Set<number>();
  const blocks: PortBlock[] = [];
  while (blocks.length < needed) {
    const unknown = inventory.unknown.flatMap(({ covers }) => covers);
    const occupancy = { claimed, unknown, leased: [], busy_bases: busyBases };
    const block = chooseBlock(wanted, { ...range, size }, occupancy);
    if (block === null) return { blocks: makeUp(wanted, size, needed), wanted, refused: 'port_range_full' };
    const free = Array.from({ length: size }, (_, index) => block.port_base + index).every(portIsFree);
    if (free) blocks.push(block);
    else busyBases.add(block.port_base);
    claimed.push(...(free ? [block] : []));
  }
  return { blocks, wanted, refused: null };
}

/** The blocks that would be wanted, for a plan that is shown although it would be refused. */
function makeUp(wanted: number, size: number, count: number): PortBlock[] {
  return Array.from({ length: count }, (_, index) => ({ port_base: wanted + index * size, size }));
}
