/** The supervisors of this home through their sockets and records. Whether one is ours it judges by itself, by lease and grant. */
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import type { DriverContext, StackDriver } from '../stack/driver.ts';
import { slotDirNameOf, slotDirOf } from '../stack/slot.ts';
import { createdStacks, endOrphanedGroups, onSupervisorGone, type SupervisorGone } from '../stack/supervision.ts';
import { supervisorListens } from './slot-record.ts';
import type { SeenSupervisor, SupervisorPorts } from './supervisor-ports.ts';

const WHY: Record<'killed' | 'limit' | 'signal', string> = {
  killed: 'its supervisor was killed',
  limit: 'its supervisor was not renewed in time',
  signal: 'its supervisor was told to end',
};

export class HostSupervisors implements SupervisorPorts {
  readonly #home: string;
  readonly #driver: StackDriver;

  constructor({ home, driver }: { home: string; driver: StackDriver }) {
    this.#home = home;
    this.#driver = driver;
  }

  async scan(): Promise<SeenSupervisor[]> {
    const looked = createdStacks(this.#home).map(async ({ slotDir, creation }): Promise<SeenSupervisor[]> => {
      if (!(await supervisorListens(this.#home, slotDir))) return [];
      if (creation === null) return [{ slot_dir: slotDir, lease_id: '', fencing_token: 0, owned: false }];
      const { lease_id, fencing_token } = creation;
      return [{ slot_dir: slotDir, lease_id, fencing_token, owned: true }];
    });
    return (await Promise.all(looked)).flat();
  }

  async renew(seen: SeenSupervisor, lease: LeaseForHelper): Promise<void> {
    const fencingToken = lease.fencing_token ?? seen.fencing_token;
    await this.#driver.renew({ ...this.#context(seen), fencingToken, ttlMs: lease.ttl_ms });
  }

  end(seen: SeenSupervisor): Promise<void> {
    return this.#driver.down(this.#context(seen), 'stop');
  }

  watch(seen: SeenSupervisor, gone: (why: string) => void): () => void {
    let stopped = false;
    const onGone = ({ stopped_because }: SupervisorGone) => {
      // One that was asked to stop was asked by a job of ours.
      if (!stopped && stopped_because !== 'asked') gone(WHY[stopped_because ?? 'killed']);
    };
    const held = onSupervisorGone({ home: this.#home, slotDir: seen.slot_dir }, onGone);
    void held.then((connection) => {
      if (connection === null) onGone({ stopped_because: null });
    });
    return () => {
      stopped = true;
      void held.then((connection) => connection?.[Symbol.dispose]());
    };
  }

  async endGroups(lease: LeaseForHelper): Promise<void> {
    const slotDir = slotDirOf(this.#home, slotDirNameOf(lease.slot));
    await endOrphanedGroups({ slotDir, leaseId: lease.lease_id });
  }

  #context({ slot_dir, lease_id, fencing_token }: SeenSupervisor): DriverContext {
    return {
      home: this.#home,
      slotDir: slot_dir,
      plan: null,
      planDigest: '',
      leaseId: lease_id,
      fencingToken: fencing_token,
      ttlMs: 0,
    };
  }
}
