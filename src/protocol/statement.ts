/** The name of a signed statement: the same for everybody who holds its bytes, so that none can be taken for another. */
export function receiptIdOf(statement: string, hashHex: (text: string) => string): string {
  return `receipt-${hashHex(statement).slice(0, 32)}`;
}
