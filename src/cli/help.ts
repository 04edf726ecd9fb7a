/** Help, made from the same definitions that the parser uses. */
import { defineCommand, renderUsage } from 'citty';
import { writeStderr, writeStdout } from '../platform/terminal.ts';
import type { CommandModule } from './command.ts';
import { COMMANDS } from './command-tree.ts';

export function overview(stream: 'stdout' | 'stderr'): number {
  const names = Object.entries(COMMANDS).filter(([, entry]) => entry.hidden !== true);
  const width = Math.max(...names.map(([name]) => name.length));
  const text = [
    'botbuddy: many coding agents share machines without hurting each other',
    '',
    'usage: botbuddy COMMAND [options]',
    '       botbuddy stack run -- npm test',
    '',
    ...names.map(([name, entry]) => `  ${name.padEnd(width)}  ${entry.summary}`),
    '',
    'more: botbuddy help COMMAND, botbuddy help exit-codes|receipts|config|conditions',
    '',
  ].join('\n');
  if (stream === 'stdout') writeStdout(text);
  else writeStderr(text);
  return stream === 'stdout' ? 0 : 4;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape sequences are what has to go
const ANSI = /\u001b\[[0-9;]*m/g;

export async function commandHelp(name: string, command: CommandModule): Promise<number> {
  const usage = await renderUsage(
    defineCommand({ meta: { name: `botbuddy ${name}`, description: command.description }, args: command.args }),
  );
  const tail = name === 'stack run' ? usage.replace(/(USAGE.*)$/m, '$1 -- CMD [ARG...]') : usage;
  writeStdout(`${tail.replaceAll(ANSI, '').trim()}\n`);
  if (command.notes !== undefined) writeStdout(`\n${command.notes.trim()}\n`);
  return 0;
}
