/** The full-size fault tests, by hand: `npm run soak -- NAME [--rounds N] [--seed S]`. */
import { parseArgs } from 'node:util';
import { soakKills } from './kills.ts';

const SOAKS: Record<string, (rounds: number, seed: number) => Promise<string[]>> = { kills: soakKills };

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  options: { rounds: { type: 'string', default: '200' }, seed: { type: 'string', default: '1' } },
  allowPositionals: true,
});
const soak = SOAKS[positionals[0] ?? ''];
if (soak === undefined) {
  console.error(`error: npm run soak -- NAME, one of: ${Object.keys(SOAKS).join(', ')}`);
  process.exit(4);
}
const began = performance.now();
const violations = await soak(Number(values.rounds), Number(values.seed));
for (const violation of violations) console.error(`violation: ${violation}`);
const secs = ((performance.now() - began) / 1_000).toFixed(0);
console.log(
  `${positionals[0]}: ${values.rounds} rounds, seed ${values.seed}, ${violations.length} violations, ${secs} s`,
);
process.exit(violations.length === 0 ? 0 : 1);
