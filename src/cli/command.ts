/** What every command file exports, and what it is given. */
import type { ArgsDef } from 'citty';
import type { Environment } from '../platform/environment.ts';
import type { ParsedArgv } from './argv.ts';

export interface CommandContext {
  readonly environment: Environment;
  readonly home: string;
  readonly cwd: string;
}

export interface CommandModule {
  readonly description: string;
  readonly args: ArgsDef;
  /** Shown below the usage: examples and what follows. */
  readonly notes?: string;
  readonly run: (argv: ParsedArgv, context: CommandContext) => Promise<number>;
}

export const textFlag = (argv: ParsedArgv, name: string): string | undefined => {
  const value = argv.flags[name];
  return typeof value === 'string' ? value : undefined;
};

export const isSet = (argv: ParsedArgv, name: string): boolean => argv.flags[name] === true;
