/**
 * Breaks one rule at a time in a copy of the source and expects the simulation to notice. A rule that can be broken
 * without a failing seed is a rule that nothing guards.
 */
import { describe, expect, test } from 'bun:test';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempDir } from '../support/temp-home.ts';

const ROOT = join(import.meta.dir, '../..');
const SEEDS_MAX = 150;

interface Mutation {
  readonly rule: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The kind of trouble under which the rule matters most. */
  readonly profile: string;
}

const ADMISSION: readonly Mutation[] = [
  {
    rule: 'a full host admits nobody',
    file: 'src/core/admission.ts',
    from: "return takenUnits + lease.units <= host.capacity_units ? 'admit' : 'capacity';",
    to: "return 'admit';",
    profile: 'calm',
  },
  {
    rule: 'a held slot gets no second lease',
    file: 'src/core/lease-request.ts',
    from: 'if (live !== undefined) return requestHeldSlot(draft, request, live);',
    to: '',
    profile: 'calm',
  },
  {
    rule: 'port blocks of two leases never overlap',
    file: 'src/core/lease-request.ts',
    from: 'if (taken === undefined) continue;',
    to: 'continue;',
    profile: 'registry',
  },
];

const FENCING: readonly Mutation[] = [
  {
    rule: 'an older claim of a job is refused',
    file: 'src/core/jobs.ts',
    from: ' || job.job_token !== jobToken',
    to: '',
    profile: 'twins',
  },
  {
    rule: 'a touch tells the loss of a lease',
    file: 'src/core/lease-request.ts',
    from: "if (TOUCH_ANSWER[lease.state] === 'fenced' || superseded) {",
    to: 'if (false) {',
    profile: 'network',
  },
  {
    rule: 'a Helper leaves what a newer grant owns',
    file: 'src/helper/job-rules.ts',
    from: "return first === 'refuse' || (first === 'refuse_unless_dead' && disk.supervisor === 'alive');",
    to: 'return false;',
    profile: 'twins',
  },
];

const PROOF: readonly Mutation[] = [
  {
    rule: 'no statement proves nothing',
    file: 'src/core/proof.ts',
    from: "if (statement === null) return 'no_statement';",
    to: "return 'proven';",
    profile: 'helpers',
  },
  {
    rule: 'what is still present is not gone',
    file: 'src/core/proof.ts',
    from: "=== 'present')) return 'still_present';",
    to: "=== 'present')) return 'proven';",
    profile: 'helpers',
  },
  {
    rule: 'only what no Helper ever had is known without a look',
    file: 'src/core/reaping.ts',
    from: 'if (!lease.ever_claimed) return',
    to: "if (lease.lease_id !== '') return",
    profile: 'clients',
  },
];

const TAKEOVER: readonly Mutation[] = [
  {
    rule: 'a living owner keeps its claim',
    file: 'src/stack/claim-rules.ts',
    from: "if (owner === 'alive' && claim.idle === null) return 'owner_alive';",
    to: '',
    profile: 'registry',
  },
  {
    rule: 'no answer of the coordinator is no',
    file: 'src/stack/claim-rules.ts',
    from: "if (lease === 'no_answer') return 'coordinator_silent';",
    to: "if (lease === 'no_answer') return 'take';",
    profile: 'registry',
  },
  {
    rule: 'a live lease keeps its claim',
    file: 'src/stack/claim-rules.ts',
    from: "return lease.live ? 'lease_live' : 'take';",
    to: "return 'take';",
    profile: 'registry',
  },
  {
    rule: 'a claim is kept for its time',
    file: 'src/stack/claim-rules.ts',
    from: "if (now <= claim.retain_until) return 'retained';",
    to: '',
    profile: 'registry',
  },
];

function simulateWith({ file, from, to, profile }: Mutation): { exitCode: number; output: string } {
  using copy = makeTempDir('bb-mutation-');
  for (const folder of ['src', 'test/simulation'])
    cpSync(join(ROOT, folder), join(copy.path, folder), { recursive: true });
  for (const name of ['package.json', 'tsconfig.json', 'bunfig.toml']) cpSync(join(ROOT, name), join(copy.path, name));
  symlinkSync(join(ROOT, 'node_modules'), join(copy.path, 'node_modules'));
  const path = join(copy.path, file);
  const source = readFileSync(path, 'utf8');
  expect(source.split(from)).toHaveLength(2);
  writeFileSync(path, source.replace(from, to));
  const args = ['--seeds', `${SEEDS_MAX}`, '--profile', profile, '--stop'];
  const { exitCode, stdout } = Bun.spawnSync([process.execPath, 'test/simulation/simulate.ts', ...args], {
    cwd: copy.path,
  });
  return { exitCode, output: stdout.toString() };
}

for (const [group, mutations] of Object.entries({ ADMISSION, FENCING, PROOF, TAKEOVER })) {
  describe(`without a rule of ${group.toLowerCase()} the simulation fails:`, () => {
    for (const mutation of mutations) {
      test(mutation.rule, () => {
        const { exitCode, output } = simulateWith(mutation);
        expect(output).toContain('replay: npm run simulate -- --seeds 1 --seed ');
        expect(exitCode).toBe(1);
      }, 60_000);
    }
  });
}
