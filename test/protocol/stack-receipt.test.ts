import { describe, expect, test } from 'bun:test';
import { cutReceipt, RECEIPT_BYTES_MAX, recoveryOf, type StackReceipt } from '../../src/protocol/stack-receipt.ts';

const receipt = (changes: Partial<StackReceipt> = {}): StackReceipt => ({
  schema_version: 1,
  command: 'stack run',
  outcome: 'completed',
  code: null,
  lease_id: 'lease',
  state: 'reaped',
  cleanup: true,
  cleanup_code: null,
  cleanup_error: null,
  fenced: false,
  exit_code: 0,
  error: null,
  ...changes,
});

const bytes = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length;

describe('a receipt cut to size', () => {
  test('one that fits is left as it is', () => {
    expect(cutReceipt(receipt())).toEqual(receipt());
  });

  test('the least needed goes first, and truncated says so', () => {
    const long = receipt({ warnings: ['x'.repeat(RECEIPT_BYTES_MAX)], recovery: recoveryOf('lease') });
    const cut = cutReceipt(long);
    expect(cut).toMatchObject({ truncated: true, recovery: recoveryOf('lease') });
    expect(cut.warnings).toBeUndefined();
  });

  test('no size is exceeded, whatever is too long, and the smallest form keeps what an agent must know', () => {
    const long = receipt({
      error: 'ü'.repeat(20_000),
      cleanup: false,
      cleanup_error: 'é'.repeat(20_000),
      slot: 's'.repeat(9_000),
    });
    const cut = cutReceipt(long);
    expect(bytes(cut)).toBeLessThanOrEqual(RECEIPT_BYTES_MAX);
    expect(Object.keys(cut).sort()).toEqual(
      [
        'schema_version',
        'command',
        'outcome',
        'lease_id',
        'state',
        'exit_code',
        'error',
        'cleanup',
        'fenced',
        'cleanup_code',
        'cleanup_error',
        'truncated',
      ].sort(),
    );
    expect(cut.error).toHaveLength(160);
  });
});
