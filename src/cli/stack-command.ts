/** What `stack run` and `stack up` share: resolve, open the client, run the flow, print one receipt on every end. */
import { openClient, settingDifferences } from '../client/open-client.ts';
import { leaseAround, runNested } from '../flows/nested-run.ts';
import { resolveStack } from '../flows/stack-context.ts';
import { runStack } from '../flows/stack-run.ts';
import type { RunOptions } from '../flows/stack-run-model.ts';
import type { RunRequest } from '../flows/stack-run-request.ts';
import { Failure } from '../platform/failure.ts';
import { exitCodeOf } from '../protocol/outcomes.ts';
import { SettingProblem } from '../protocol/settings.ts';
import type { ParsedArgv } from './argv.ts';
import type { CommandContext } from './command.ts';
import { printNote } from './output.ts';
import { progressReporter } from './progress.ts';
import { failureReceipt, printReceipt, receiptBytesMax } from './receipts.ts';
import { wishesOf } from './stack-options.ts';

export interface StackCommand {
  readonly command: 'stack run' | 'stack up';
  readonly mode: 'attached' | 'detached';
  readonly argv: readonly string[];
  readonly options: RunOptions;
  readonly request: Omit<RunRequest, 'command' | 'mode' | 'argv' | 'cwd' | 'onProgress'>;
}

export async function runStackCommand(argv: ParsedArgv, around: CommandContext, wanted: StackCommand): Promise<number> {
  receiptBytesMax(argv);
  try {
    const context = resolveStack(around, wishesOf(argv));
    const client = await openClient({ home: around.home, environment: around.environment });
    sayDifferences(around);
    const { command, mode, options } = wanted;
    const outerLease = command === 'stack run' ? await leaseAround(context, client) : null;
    if (outerLease !== null) {
      const { connectionFile } = wanted.request;
      return printReceipt(
        await runNested(context, outerLease, { argv: wanted.argv, cwd: around.cwd, connectionFile }),
        argv,
        true,
      );
    }
    const progress = progressReporter();
    const request: RunRequest = {
      ...wanted.request,
      hardTtlMs: wanted.request.hardTtlMs ?? context.config.hard_ttl_ms,
      command,
      mode,
      argv: wanted.argv,
      cwd: around.cwd,
      onProgress: (now) => progress.show(now),
    };
    const { receipt, facts } = await runStack(context, client, request, options);
    progress.clear();
    return printReceipt(receipt, argv, facts.envNames.length > 0 || receipt.child_exit_code !== undefined);
  } catch (error) {
    const failure = asFailure(error);
    if (failure === null) throw error;
    return printReceipt(failureReceipt(wanted.command, failure, exitCodeOf(failure.code, 'stack')), argv);
  }
}

export function asFailure(error: unknown): Failure | null {
  if (error instanceof Failure) return error;
  return error instanceof SettingProblem ? new Failure('setting_invalid', error.message, { cause: error }) : null;
}

/** A running coordinator keeps the settings of the command that started it: said once, since it may surprise. */
function sayDifferences(around: CommandContext): void {
  for (const { setting, running, wanted } of settingDifferences(around)) {
    printNote(`note: the running coordinator has ${setting} ${running ?? 'unset'}, not ${wanted ?? 'unset'}`);
  }
}
