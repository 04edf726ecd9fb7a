/** Where a receipt goes: the last line of stdout, or a file of its own, cut to size. */

import { writeFileDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { lastStdoutByteIsNewline, writeStdout } from '../platform/terminal.ts';
import { outcomeOf } from '../protocol/outcomes.ts';
import { cutReceipt, RECEIPT_BYTES_MAX, type StackReceipt } from '../protocol/stack-receipt.ts';
import type { ParsedArgv } from './argv.ts';
import { isSet, textFlag } from './command.ts';
import { printError, printHint } from './output.ts';
import { wholeNumber } from './stack-options.ts';

const RECEIPT_BYTES_MIN = 512;

/** Read before anything is done, so that a bad value costs no receipt. Throws `invalid_arguments`. */
export function receiptBytesMax(argv: ParsedArgv): number {
  return wholeNumber(argv, 'receipt-max-bytes', RECEIPT_BYTES_MIN) ?? RECEIPT_BYTES_MAX;
}

/** Prints the receipt and answers with its exit code. A child may have written to stdout before. */
export function printReceipt(receipt: StackReceipt, argv: ParsedArgv, childWrote = false): number {
  const cut = cutReceipt(receipt, receiptBytesMax(argv));
  const text = `${isSet(argv, 'json') ? JSON.stringify(cut, null, 2) : JSON.stringify(cut)}\n`;
  const file = textFlag(argv, 'receipt-file');
  if (file === undefined || !writeToFile(file, text)) {
    writeStdout(childWrote && lastStdoutByteIsNewline() !== true ? `\n${text}` : text);
  }
  if (receipt.error !== null) {
    printError(receipt.error);
    const { recovery } = receipt;
    const hints = recovery === undefined ? [outcomeOf(receipt.code ?? 'internal').hint] : Object.values(recovery);
    for (const hint of hints) printHint(hint);
  }
  return receipt.exit_code;
}

function writeToFile(file: string, text: string): boolean {
  try {
    writeFileDurable(file, text);
    return true;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    printError(`${error.message}; the receipt follows on stdout`);
    return false;
  }
}

/** The receipt of a command that failed before it had a lease. */
export function failureReceipt(command: string, error: Failure, exitCode: number): StackReceipt {
  return {
    schema_version: 1,
    command,
    outcome: 'error',
    code: error.code,
    lease_id: null,
    state: null,
    cleanup: null,
    cleanup_code: null,
    cleanup_error: null,
    fenced: false,
    exit_code: exitCode,
    error: error.message,
  };
}
