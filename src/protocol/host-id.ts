/** Who a host is before and after it registered: client, coordinator and Helper derive the same id from the same facts. */
export interface HostFacts {
  /** The installation's own id, null where the system has none. */
  machine_id: string | null;
  host_key: string;
  /** BOTBUDDY_HOME, absolute: two homes on one machine are two hosts. */
  home: string;
}

/** The id is the same for each start on this machine and home. `hashHex` is SHA-256 in hexadecimal. */
export function hostIdOf({ machine_id, host_key, home }: HostFacts, hashHex: (text: string) => string): string {
  return `host-${hashHex(JSON.stringify([machine_id ?? host_key, home])).slice(0, 24)}`;
}
