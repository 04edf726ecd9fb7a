/** Names of environment variables that a stack builds, and of those that never reach what it starts. */

/** All that a lease started carries it, with the lease's id as its value: how survivors are found. */
export const REAP_MARK = 'BOTBUDDY_REAP_MARK';

const CLAIMED = ['BOTBUDDY_LEASE_ID', 'BOTBUDDY_STACK_PROJECT', 'BOTBUDDY_CONNECTION_FILE', REAP_MARK];
/** Settings of the program that look like ports of a stack. */
const SETTINGS = ['BOTBUDDY_PORT_RANGE', 'BOTBUDDY_PORT_BLOCK'];
const SECRET = ['BOTBUDDY_AGENT_SESSION_TOKEN', 'BOTBUDDY_DATABASE_URL'];

export function portVariable(name: string): string {
  return `BOTBUDDY_PORT_${name.toUpperCase().replaceAll('-', '_')}`;
}

/** True for a port whose variable is taken by a setting of the program. */
export function isReservedPortName(name: string): boolean {
  return SETTINGS.includes(portVariable(name));
}

/** Changes what programs load before they run. */
export function isScrubbedVariable(name: string): boolean {
  return name.startsWith('BUN_') || name.startsWith('DYLD_') || name === 'NODE_OPTIONS' || name === 'LD_PRELOAD';
}

/** Built for each child or secret: never taken over from the environment around it. */
export function isNeverInherited(name: string): boolean {
  if (SETTINGS.includes(name)) return false;
  return name.startsWith('BOTBUDDY_PORT_') || CLAIMED.includes(name) || SECRET.includes(name);
}
