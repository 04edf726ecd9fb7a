/**
 * Strict parsing of a command's own arguments from its definition. Everything behind `--` belongs to the child and is
 * never looked at. Unknown flags, repeated flags and missing values are errors that name the nearest right thing.
 */
import { parseArgs } from 'node:util';
import type { ArgsDef } from 'citty';
import { Failure } from '../platform/failure.ts';
import { nearestOf } from '../protocol/conditions.ts';

export interface ParsedArgv {
  readonly flags: Readonly<Record<string, string | boolean>>;
  readonly positionals: readonly string[];
  /** What stands behind `--`; null when there is no `--`. */
  readonly rest: readonly string[] | null;
}

function invalid(message: string, fields: Record<string, unknown> = {}): Failure {
  return new Failure('invalid_arguments', message, { fields });
}

/** Parses what follows the command's name. Throws `invalid_arguments`. */
export function parseArgv(argv: readonly string[], args: ArgsDef, command: string): ParsedArgv {
  const split = argv.indexOf('--');
  const own = split === -1 ? argv : argv.slice(0, split);
  const rest = split === -1 ? null : argv.slice(split + 1);
  const options = optionsOf(args);
  const { tokens } = parseArgs({ args: [...own], options, strict: false, tokens: true, allowPositionals: true });
  const flags: Record<string, string | boolean> = {};
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const option = options[token.name];
    if (option === undefined) throw unknownFlag(token.rawName, options, command);
    if (Object.hasOwn(flags, token.name)) throw invalid(`${token.rawName} is given twice`, { flag: token.rawName });
    flags[token.name] = flagValue(token, option.type);
  }
  checkPositionals(positionals, args, command);
  return { flags, positionals, rest };
}

type Options = Record<string, { type: 'boolean' | 'string'; short?: string }>;

function optionsOf(args: ArgsDef): Options {
  const options: Options = { help: { type: 'boolean', short: 'h' } };
  for (const [name, arg] of Object.entries(args)) {
    if (arg.type === 'positional') continue;
    options[name] = { type: arg.type === 'boolean' ? 'boolean' : 'string' };
  }
  return options;
}

function flagValue(
  token: { rawName: string; value?: string | undefined; inlineValue?: boolean | undefined },
  type: 'boolean' | 'string',
): string | boolean {
  if (type === 'boolean') {
    if (token.inlineValue === true) throw invalid(`${token.rawName} takes no value`, { flag: token.rawName });
    return true;
  }
  const { value } = token;
  if (value === undefined) throw invalid(`${token.rawName} needs a value`, { flag: token.rawName });
  if (token.inlineValue !== true && value.startsWith('-') && value.length > 1 && !/^-\d/.test(value)) {
    throw invalid(`${token.rawName} needs a value, '${value}' looks like a flag`, { flag: token.rawName });
  }
  return value;
}

function unknownFlag(rawName: string, options: Options, command: string): Failure {
  const nearest = nearestOf(rawName.replace(/^-+/, ''), Object.keys(options));
  const meant = nearest === null ? '' : `; did you mean --${nearest}?`;
  return invalid(`botbuddy ${command} has no flag ${rawName}${meant}`, { flag: rawName, nearest });
}

function checkPositionals(positionals: readonly string[], args: ArgsDef, command: string): void {
  const wanted = Object.entries(args).filter(([, arg]) => arg.type === 'positional');
  const many = wanted.some(([, arg]) => arg.valueHint === '...');
  const surplus = positionals[wanted.length];
  if (surplus !== undefined && !many) throw invalid(`botbuddy ${command} has no use for '${surplus}'`);
  const missing = wanted[positionals.length];
  if (missing !== undefined && missing[1].required !== false) {
    throw invalid(`botbuddy ${command} needs ${missing[0].toUpperCase()}`);
  }
}
