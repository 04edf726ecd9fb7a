import { isTTY } from './terminal.ts';

/** Asks a person; null when there is nobody to ask (a closed stdin would hang) or they walked away. */
export async function confirm(question: string): Promise<boolean | null> {
  if (!isTTY('stdin') || !isTTY('stderr')) return null;
  const { createConsola } = await import('consola');
  const consola = createConsola({ stdout: process.stderr, stderr: process.stderr });
  const answer = await consola.prompt(question, { type: 'confirm', initial: false, cancel: 'null' });
  return typeof answer === 'boolean' ? answer : null;
}
