/** Every command by the words that call it; each file is loaded only when it is called. */
import type { CommandModule } from './command.ts';

export interface CommandEntry {
  readonly summary: string;
  readonly hidden?: true;
  readonly load: () => Promise<CommandModule>;
}

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  'stack run': {
    summary: 'run a command against a stack of its own, then give it back',
    load: async () => (await import('./commands/stack-run.ts')).command,
  },
  'stack up': {
    summary: "bring this worktree's stack up and leave it running",
    load: async () => (await import('./commands/stack-up.ts')).command,
  },
  'stack env': {
    summary: 'print the environment of a running stack',
    load: async () => (await import('./commands/stack-env.ts')).command,
  },
  'stack logs': {
    summary: 'print what the services of a stack said',
    load: async () => (await import('./commands/stack-logs.ts')).command,
  },
  'stack status': {
    summary: "tell a lease's state",
    load: async () => (await import('./commands/stack-status.ts')).command,
  },
  'stack done': {
    summary: 'give a lease back',
    load: async () => (await import('./commands/stack-done.ts')).command,
  },
  'stack list': {
    summary: 'list the live leases',
    load: async () => (await import('./commands/stack-list.ts')).command,
  },
  'stack plan': {
    summary: 'show what would be started, and touch nothing',
    load: async () => (await import('./commands/stack-plan.ts')).command,
  },
  down: {
    summary: "end all of this worktree's stacks, with proof",
    load: async () => (await import('./commands/down.ts')).command,
  },
  wait: {
    summary: 'park until a condition holds',
    load: async () => (await import('./commands/wait.ts')).command,
  },
  serve: {
    summary: 'run the coordinator',
    load: async () => (await import('./commands/serve.ts')).command,
  },
  'helper status': {
    summary: "tell how this host's Helper is",
    load: async () => (await import('./commands/helper-status.ts')).command,
  },
  'helper run': {
    summary: "run this host's Helper in the foreground",
    load: async () => (await import('./commands/helper-run.ts')).command,
  },
  'config show': {
    summary: 'show every setting and where it comes from',
    load: async () => (await import('./commands/config-show.ts')).command,
  },
  version: {
    summary: 'print the version',
    load: async () => (await import('./commands/version.ts')).command,
  },
  help: {
    summary: 'explain a command or a topic',
    load: async () => (await import('./commands/help.ts')).command,
  },
  supervise: {
    summary: 'keep the services of one stack (started by the Helper)',
    hidden: true,
    load: async () => (await import('./commands/supervise.ts')).command,
  },
};

export interface FoundCommand {
  readonly name: string;
  readonly entry: CommandEntry;
  readonly argv: readonly string[];
}

/** The command that the words call: the longest name that fits. */
export function findCommand(argv: readonly string[]): FoundCommand | null {
  for (const length of [2, 1]) {
    const name = argv.slice(0, length).join(' ');
    const entry = argv.length >= length ? COMMANDS[name] : undefined;
    if (entry !== undefined) return { name, entry, argv: argv.slice(length) };
  }
  return null;
}
