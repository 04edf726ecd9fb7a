/** A slot's text ends in the short hash that names its directory, with or without a name before it. */
export function slotDirNameOf(slot: string): string {
  return slot.slice(slot.lastIndexOf('-') + 1);
}
