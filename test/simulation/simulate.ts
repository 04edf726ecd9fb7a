/**
 * `npm run simulate -- --seeds N --seed S --ops K`: seeds S to S+N-1, exit 1 when a promise was broken. Also takes
 * `--profile NAME` (one kind of trouble for all seeds), `--stop` (at the first broken seed) and `--verbose` (the story).
 */
import { parseArgs } from 'node:util';
import { configureLogging } from '../../src/platform/logging.ts';
import { simulate } from './simulation.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    ops: { type: 'string', default: '1000' },
    profile: { type: 'string' },
    stop: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
});

const VIOLATIONS_SHOWN_MAX = 10;
const seeds = whole('seeds', values.seeds);
const first = whole('seed', values.seed);
const operations = whole('ops', values.ops);
const profile = values.profile === undefined ? {} : { profile: values.profile };
const story = values.verbose ? { onLine: (line: string) => console.error(line) } : {};
const trace = new Bun.CryptoHasher('sha256');
const done = { seeds: 0, operations: 0, violations: 0 };

configureLogging({ level: values.verbose ? 'warn' : 'silent' });
for (let seed = first; seed < first + seeds; seed += 1) {
  const result = await simulate({ seed, operations, ...profile, ...story });
  done.seeds += 1;
  done.operations += result.operations;
  done.violations += result.violations.length;
  trace.update(`${seed} ${result.trace}\n`);
  if (values.verbose) console.error(JSON.stringify(result));
  if (result.violations.length === 0) continue;
  for (const violation of result.violations.slice(0, VIOLATIONS_SHOWN_MAX)) {
    console.log(`seed ${seed} (${result.profile}): ${violation}`);
  }
  console.log(`replay: npm run simulate -- ${replayOf(seed)}`);
  if (values.stop) break;
}
const hash = trace.digest('hex').slice(0, 16);
console.log(`${done.seeds} seeds, ${done.operations} operations, ${done.violations} violations, trace ${hash}`);
process.exitCode = done.violations === 0 ? 0 : 1;

function whole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0) return value;
  throw new RangeError(`--${name} ${text} is no whole number`);
}

function replayOf(seed: number): string {
  const named = values.profile === undefined ? '' : ` --profile ${values.profile}`;
  return `--seeds 1 --seed ${seed} --ops ${operations}${named} --verbose`;
}
