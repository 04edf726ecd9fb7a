/** The only file that ends the process. `--version` is answered before anything is loaded. */
import { VERSION } from './protocol/version.ts';

const argv = process.argv.slice(2);

if (argv.length === 1 && (argv[0] === '--version' || argv[0] === '-v')) {
  console.log(VERSION);
} else {
  const { runCli } = await import('./cli/run-cli.ts');
  const exitCode = await runCli(argv);
  process.exit(exitCode);
}
