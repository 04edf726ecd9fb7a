/**
 * What may go wrong, and how often: a profile a seed. Chances are per message or per turn; the rest of a profile says
 * which kinds of trouble its seed knows at all, so that some seeds can promise more than others.
 */
import type { SeededRandom } from './random.ts';

export const TROUBLES = [
  'coordinator_crash',
  'coordinator_pause',
  'commit_lost',
  'commit_unanswered',
  'disk_full',
  'stream_cut',
  'client_kill',
  'client_pause',
  'client_signal',
  'helper_crash',
  'helper_pause',
  'helper_drain',
  'helper_twin',
  'supervisor_death',
  'claim_lost',
  'capacity_change',
  'clock_jump',
  'suspend',
  'done_by_person',
] as const;
export type Trouble = (typeof TROUBLES)[number];

export interface Profile {
  readonly name: string;
  /** Chance of one trouble in each turn. */
  readonly trouble: number;
  readonly kinds: readonly Trouble[];
  readonly dropped: number;
  readonly duplicated: number;
  readonly slow: number;
  /** Calls that come once more, long after everybody forgot them. */
  readonly echoed: number;
  readonly provisionFails: number;
  readonly teardownSticks: number;
  readonly lookIsBlind: number;
  /** Calls are lost on the way, or were. */
  readonly lossy: boolean;
  /** The lock of a home may fail, so that two Helpers serve it: then only fencing is left. */
  readonly locksFail: boolean;
}

const QUIET = {
  trouble: 0,
  kinds: [],
  dropped: 0,
  duplicated: 0,
  slow: 0.02,
  echoed: 0,
  provisionFails: 0,
  teardownSticks: 0,
  lookIsBlind: 0,
  lossy: false,
  locksFail: false,
} as const satisfies Omit<Profile, 'name'>;

const ALL_BUT_TWINS = TROUBLES.filter((kind) => kind !== 'helper_twin');

export const PROFILES: readonly Profile[] = [
  {
    ...QUIET,
    name: 'storm',
    lossy: true,
    echoed: 0.02,
    trouble: 0.03,
    kinds: ALL_BUT_TWINS,
    dropped: 0.03,
    duplicated: 0.03,
    slow: 0.1,
    provisionFails: 0.15,
    teardownSticks: 0.15,
    lookIsBlind: 0.05,
  },
  { ...QUIET, name: 'calm' },
  {
    ...QUIET,
    name: 'coordinator',
    trouble: 0.02,
    kinds: ['coordinator_crash', 'commit_lost', 'commit_unanswered', 'disk_full', 'stream_cut'],
  },
  {
    ...QUIET,
    name: 'network',
    lossy: true,
    echoed: 0.03,
    dropped: 0.08,
    duplicated: 0.1,
    slow: 0.2,
    trouble: 0.01,
    kinds: ['stream_cut'],
  },
  {
    ...QUIET,
    name: 'clients',
    trouble: 0.04,
    kinds: ['client_kill', 'client_pause', 'client_signal', 'done_by_person', 'claim_lost'],
    duplicated: 0.02,
  },
  {
    ...QUIET,
    name: 'helpers',
    echoed: 0.03,
    trouble: 0.02,
    kinds: ['helper_crash', 'helper_pause', 'helper_drain', 'supervisor_death', 'capacity_change'],
    provisionFails: 0.25,
    teardownSticks: 0.25,
    lookIsBlind: 0.1,
  },
  {
    ...QUIET,
    name: 'clocks',
    trouble: 0.02,
    kinds: ['clock_jump', 'suspend', 'coordinator_pause', 'coordinator_crash'],
  },
  {
    ...QUIET,
    name: 'twins',
    locksFail: true,
    trouble: 0.1,
    kinds: ['helper_twin', 'helper_twin', 'helper_twin', 'client_kill', 'client_signal'],
    provisionFails: 0.1,
    teardownSticks: 0.1,
  },
  {
    ...QUIET,
    name: 'registry',
    trouble: 0.06,
    kinds: ['client_kill', 'client_pause', 'clock_jump', 'coordinator_crash', 'done_by_person', 'claim_lost'],
  },
];

/** The profile of a seed, or the one that is asked for by name. */
export function profileOf(seed: number, name: string | null = null): Profile {
  const named = name === null ? PROFILES[seed % PROFILES.length] : PROFILES.find((profile) => profile.name === name);
  if (named === undefined) throw new RangeError(`there is no profile ${name}`);
  return named;
}

export const CALM = profileOf(0, 'calm');

/** What becomes of one message. */
export interface Passage {
  readonly delays: readonly number[];
}

export function passageOf(random: SeededRandom, { dropped, duplicated, slow }: Profile): Passage {
  const delay = () => (random.chance(slow) ? random.between(20, 6_000) : random.between(1, 12));
  if (random.chance(dropped)) return { delays: [] };
  return { delays: random.chance(duplicated) ? [delay(), delay()] : [delay()] };
}
