/** A place in the log as clients hold it: `EPOCH.SEQ`. */
export interface Cursor {
  epoch: string;
  seq: number;
}

export const formatCursor = (epoch: string, seq: number): string => `${epoch}.${seq}`;

/** Null when the text is no cursor at all. */
export function parseCursor(text: string): Cursor | null {
  const match = /^([0-9a-zA-Z-]{1,64})\.(\d{1,15})$/.exec(text);
  return match === null ? null : { epoch: match[1] ?? '', seq: Number(match[2]) };
}
