// The sample's test: it passes only on a stack that nobody else writes to.
import { basename } from 'node:path';

const me = basename(process.cwd());
const url = process.env.COUNTER_URL;
for (let i = 0; i < 3; i += 1) {
  await fetch(`${url}/?by=${me}`);
  await new Promise((resolve) => setTimeout(resolve, 250));
}
const counted = await (await fetch(url)).json();
const strangers = counted.filter((name) => name !== me);
console.log(`${me}: counted ${counted.length} at ${url}, ${strangers.length} by others`);
process.exit(counted.length === 3 && strangers.length === 0 ? 0 : 1);
