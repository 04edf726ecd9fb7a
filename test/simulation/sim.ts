/** What all actors of one simulated world share. */
import type { Clients } from './clients.ts';
import type { SimCoordinator } from './coordinator.ts';
import type { Profile } from './faults.ts';
import type { HelperKeeper } from './helpers.ts';
import type { SeededRandom } from './random.ts';
import type { Timeline } from './timeline.ts';
import type { Watch } from './watch.ts';
import type { SimHost } from './world.ts';

export interface Sim {
  readonly timeline: Timeline;
  readonly random: SeededRandom;
  readonly hosts: readonly SimHost[];
  readonly helpers: readonly HelperKeeper[];
  readonly coordinator: SimCoordinator;
  readonly watch: Watch;
  readonly clients: Clients;
  /** The trouble of now: the seed's profile, and none once everything is healed. */
  profile: Profile;
  violate(promise: string, what: string): void;
  /** A line of the story, for whoever replays a seed. */
  tell(what: string): void;
}
