/** Phase one of every stack command: which worktree, which stack, which slot, under which settings. Touches nothing. */
import type { Environment } from '../platform/environment.ts';
import { Failure } from '../platform/failure.ts';
import { hostKey, machineId } from '../platform/machine.ts';
import { ownIdentity, type ProcessIdentity } from '../platform/processes.ts';
import { LOCAL_TENANT } from '../protocol/local-identity.ts';
import { type PortRange, settingCount, settingMs, settingPortRange } from '../protocol/settings.ts';
import type { StackConfig } from '../protocol/stack-config.ts';
import { readStackConfig } from '../stack/config-file.ts';
import { type SlotIdentity, type StackPlace, slotDirOf, slotOf, stackPlaceOf } from '../stack/slot.ts';
import { Settings } from './user-settings.ts';

export interface StackWishes {
  readonly slot?: string;
  readonly stackPath: string;
  readonly units?: number;
  readonly idleTtlMs?: number;
}

export interface StackContext {
  readonly home: string;
  readonly environment: Environment;
  readonly place: StackPlace;
  readonly config: StackConfig;
  readonly slot: SlotIdentity;
  readonly slotDir: string;
  readonly hostKey: string;
  readonly machineId: string | null;
  readonly owner: ProcessIdentity;
  readonly units: number;
  readonly ttlMs: number;
  readonly idleTtlMs: number;
  readonly portRange: PortRange;
  readonly portBlockSize: number;
}

export interface Surroundings {
  readonly home: string;
  readonly environment: Environment;
  readonly cwd: string;
}

/** Throws `not_a_repository`, `config_missing`, `config_invalid`, `driver_unsupported`, `invalid_arguments`. */
export function resolveStack({ home, environment, cwd }: Surroundings, wishes: StackWishes): StackContext {
  const settings = new Settings(home, environment);
  const place = stackPlaceOf(cwd, wishes.stackPath);
  const { config } = readStackConfig(place.worktree_root);
  const slot = slotOf({
    tenant: LOCAL_TENANT,
    gitCommonDir: place.git_common_dir,
    worktreeRoot: place.worktree_root,
    ...(wishes.slot === undefined ? {} : { override: wishes.slot }),
  });
  const portBlockSize = settingCount('port_block', settings.get('port_block')) ?? 20;
  if (portBlockSize < 2) throw new Failure('setting_invalid', 'BOTBUDDY_PORT_BLOCK must be at least 2');
  return {
    home,
    environment,
    place,
    config,
    slot,
    slotDir: slotDirOf(home, slot.slot_dir_name),
    hostKey: hostKey(),
    machineId: machineId(),
    owner: ownIdentity(),
    units: wishes.units ?? config.units,
    ttlMs: settingMs('lease_ttl_secs', settings.get('lease_ttl_secs')),
    idleTtlMs: wishes.idleTtlMs ?? config.idle_ttl_ms ?? settingMs('idle_ttl_secs', settings.get('idle_ttl_secs')),
    portRange: settingPortRange(settings.get('port_range')),
    portBlockSize,
  };
}
