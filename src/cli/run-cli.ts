/**
 * The command line: finds the command, parses strictly, runs it, and turns whatever it throws into words, a hint and
 * an exit code. Owns no behaviour of a command. Read next: `command-tree.ts`, `argv.ts`, `commands/`.
 */
import { currentDirectory, readEnvironment } from '../platform/environment.ts';
import { Failure } from '../platform/failure.ts';
import { homeDir } from '../platform/paths.ts';
import { nearestOf } from '../protocol/conditions.ts';
import { exitCodeOf, OUTCOMES, outcomeOf } from '../protocol/outcomes.ts';
import { SettingProblem } from '../protocol/settings.ts';
import { parseArgv } from './argv.ts';
import { COMMANDS, findCommand } from './command-tree.ts';
import { printError, printHint } from './output.ts';

export async function runCli(argv: readonly string[]): Promise<number> {
  try {
    return await dispatch(argv);
  } catch (error) {
    return reportError(error, argv);
  }
}

async function dispatch(argv: readonly string[]): Promise<number> {
  const first = argv[0];
  if (first === undefined || first === '--help' || first === '-h') {
    const { overview } = await import('./help.ts');
    return overview(first === undefined ? 'stderr' : 'stdout');
  }
  const found = findCommand(argv);
  if (found === null) throw unknownCommand(argv);
  const command = await found.entry.load();
  const parsed = parseArgv(found.argv, command.args, found.name);
  if (parsed.flags['help'] === true) {
    const { commandHelp } = await import('./help.ts');
    return commandHelp(found.name, command);
  }
  const environment = readEnvironment();
  return command.run(parsed, { environment, home: homeDir(environment), cwd: currentDirectory() });
}

function unknownCommand(argv: readonly string[]): Failure {
  const names = Object.keys(COMMANDS).filter((name) => COMMANDS[name]?.hidden !== true);
  const first = argv[0] ?? '';
  const group = names.filter((name) => name.startsWith(`${first} `));
  if (group.length > 0) {
    const second = argv[1];
    const nearest =
      second === undefined
        ? null
        : nearestOf(
            second,
            group.map((name) => name.split(' ')[1] ?? ''),
          );
    const meant = nearest === null ? `one of: ${group.join(', ')}` : `did you mean botbuddy ${first} ${nearest}?`;
    return new Failure(
      'invalid_arguments',
      `botbuddy ${[first, second].filter(Boolean).join(' ')} is no command; ${meant}`,
    );
  }
  const nearest = nearestOf(
    first,
    names.map((name) => name.split(' ')[0] ?? ''),
  );
  const meant = nearest === null ? '' : `; did you mean botbuddy ${nearest}?`;
  return new Failure('invalid_arguments', `'${first}' is no command${meant}`);
}

export function reportError(error: unknown, argv: readonly string[]): number {
  const family = argv[0] === 'wait' ? 'wait' : argv[0] === 'stack' || argv[0] === 'down' ? 'stack' : 'other';
  if (error instanceof SettingProblem) {
    printError(error.message);
    printHint(OUTCOMES.setting_invalid.hint);
    return exitCodeOf('setting_invalid', family);
  }
  if (error instanceof Failure) {
    printError(error.message);
    const command = findCommand(argv)?.name;
    const usage = command === undefined ? 'botbuddy help' : `botbuddy help ${command}`;
    printHint(error.code === 'invalid_arguments' ? usage : outcomeOf(error.code).hint);
    return exitCodeOf(error.code, family);
  }
  printError(error instanceof Error ? (error.stack ?? error.message) : String(error));
  printHint(OUTCOMES.internal.hint);
  return exitCodeOf('internal', family);
}
