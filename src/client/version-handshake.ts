/** Whether a client and a coordinator of these versions may work together, and which one to update when not. */
interface Version {
  major: number;
  minor: number;
  patch: number;
}

/** What a program that was not built says of itself: it works with everything. */
const UNBUILT = '0.0.0';

export type Agreement = 'compatible' | 'client_is_older' | 'coordinator_is_older';

/** Before 1.0 a minor version may change the wire, afterwards only a major one. */
export function agreementOf(client: string, coordinator: string): Agreement {
  if (client === UNBUILT || coordinator === UNBUILT) return 'compatible';
  const ours = parsed(client);
  const theirs = parsed(coordinator);
  if (ours === null || theirs === null) return client === coordinator ? 'compatible' : 'coordinator_is_older';
  if (ours.major === theirs.major && (ours.major > 0 || ours.minor === theirs.minor)) return 'compatible';
  return isOlder(client, coordinator) ? 'client_is_older' : 'coordinator_is_older';
}

function isOlder(version: string, than: string): boolean {
  const a = parsed(version);
  const b = parsed(than);
  if (a === null || b === null || version === UNBUILT || than === UNBUILT) return false;
  return (
    a.major - b.major < 0 || (a.major === b.major && (a.minor < b.minor || (a.minor === b.minor && a.patch < b.patch)))
  );
}

function parsed(text: string): Version | null {
  const match = /^(\d+)\.(\d+)\.(\d+)/.exec(text);
  return match === null ? null : { major: Number(match[1]), minor: Number(match[2]), patch: Number(match[3]) };
}
