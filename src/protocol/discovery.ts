/**
 * `coordinator.json` in the home: where the embedded coordinator listens. A hint only; the kernel's lock beside the
 * database decides who is the coordinator.
 */
export interface DiscoveryFile {
  schema_version: 1;
  url: string;
  socket: string;
  identity: { pid: number; started_at: string; boot_id: string };
  version: string;
  /** By setting name, what the running coordinator was started with. */
  settings: Record<string, string>;
  /** ISO time. */
  started_at: string;
}
