/** `stack plan`: the plan as it would be made now. Reads the registry, claims nothing, starts nothing, asks nobody. */

import { claimPreview } from '../stack/claim-preview.ts';
import { makePlan } from '../stack/plan.ts';
import type { StackContext } from './stack-context.ts';

export function planPreview(context: StackContext) {
  const preview = claimPreview({
    home: context.home,
    slot: context.slot,
    portsNeeded: context.config.ports.length,
    range: context.portRange,
    size: context.portBlockSize,
  });
  const plan = makePlan({
    config: context.config,
    slot: context.slot,
    slotDir: context.slotDir,
    worktreeRoot: context.place.worktree_root,
    stackDir: context.place.stack_dir,
    blocks: preview.blocks,
  });
  return {
    schema_version: 1,
    command: 'stack plan',
    driver: plan.driver,
    units: context.units,
    slot: context.slot.slot,
    project: context.slot.project,
    host_key: context.hostKey,
    worktree_root: context.place.worktree_root,
    stack_path: context.place.stack_path,
    blocks: plan.blocks,
    wanted: preview.wanted,
    ports: plan.ports,
    guard_ports: plan.guard_ports,
    data_dir: plan.data_dir,
    services: plan.services.map(({ name, command, ready, cwd }) => ({ name, command, ready, cwd })),
    setup: plan.setup,
    env_names: Object.keys(plan.env),
    idle: { on_idle: context.config.on_idle, idle_ttl_secs: context.idleTtlMs / 1_000 },
    shared: [],
    refused: preview.refused,
  };
}
