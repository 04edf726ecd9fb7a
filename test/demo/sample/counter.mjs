// The sample's service: counts what it is told, and keeps it in a file.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const [port, file] = process.argv.slice(2);
const counted = () => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []);

createServer((request, response) => {
  const name = new URL(request.url, 'http://local').searchParams.get('by');
  if (name) appendFileSync(file, `${name}\n`);
  response.end(JSON.stringify(counted()));
}).listen(Number(port), '127.0.0.1');
