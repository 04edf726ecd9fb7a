import { describe, expect, test } from 'bun:test';
import { makeStage } from '../support/stage.ts';

describe('botbuddy stack run on the compiled binary', () => {
  test('a fresh worktree with a stack without services runs its command and proves the cleanup', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: '[stack]\ndriver = "process"\n' });

    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', 'true']);

    expect(run.exitCode).toBe(0);
    expect(run.receipt).toMatchObject({
      command: 'stack run',
      outcome: 'completed',
      child_exit_code: 0,
      cleanup: true,
      port_block: { released: true, cleanup_proof: 'signed_reap' },
      exit_code: 0,
    });
  });
});
