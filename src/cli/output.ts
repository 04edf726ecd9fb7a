/** How the command line speaks: results on stdout, everything else on stderr, short, with a next step. */
import { isTTY, writeStderr, writeStdout } from '../platform/terminal.ts';

export function printError(message: string): void {
  writeStderr(`error: ${message}\n`);
}

export function printHint(hint: string | null | undefined): void {
  if (hint) writeStderr(`hint: ${hint}\n`);
}

export function printNote(line: string): void {
  writeStderr(`${line}\n`);
}

/** One line of JSON, or pretty-printed with `--json`. */
export function printJson(value: unknown, pretty: boolean): void {
  writeStdout(`${pretty ? JSON.stringify(value, null, 2) : JSON.stringify(value)}\n`);
}

export interface Column<Row> {
  readonly title: string;
  readonly of: (row: Row) => string;
}

/** A table for people, where stdout is a terminal; null where it is not. */
export function tableForPeople<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string | null {
  if (!isTTY('stdout')) return null;
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => columns.map(({ of }) => of(row)))];
  const widths = columns.map((_, i) => Math.max(...cells.map((line) => line[i]?.length ?? 0)));
  return cells
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** An age in the largest unit that still says something: `4s`, `12m`, `3h`, `2d`. */
export function ageText(ms: number): string {
  const secs = Math.max(0, Math.round(ms / 1_000));
  if (secs < 120) return `${secs}s`;
  if (secs < 7_200) return `${Math.round(secs / 60)}m`;
  return secs < 172_800 ? `${Math.round(secs / 3_600)}h` : `${Math.round(secs / 86_400)}d`;
}
