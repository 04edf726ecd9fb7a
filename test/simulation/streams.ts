/** Event streams of the simulation: the frames of the real ones, over connections that are cut or fall silent. */
import { movedBy } from '../../src/coordinator/_moved.ts';
import { formatCursor, parseCursor } from '../../src/coordinator/cursor.ts';
import type { Engine } from '../../src/coordinator/engine.ts';
import type { LivenessTable } from '../../src/coordinator/liveness-table.ts';
import type { SequencedEvent } from '../../src/core/events.ts';
import type { ArchiveRow } from '../../src/core/inputs.ts';
import type { EndedWait, Lease, State, Wait } from '../../src/core/model.ts';
import { leaseView } from '../../src/core/views.ts';
import type { MemoryLog } from '../../src/log/memory-log.ts';
import type { Frame } from '../../src/protocol/stream-frames.ts';
import { noAnswer, refusedWith } from './network.ts';
import type { Sim } from './sim.ts';
import type { Life } from './timeline.ts';

export interface StreamReader {
  opened(): void;
  frame(frame: Frame): void;
  closed(message: string): void;
  failed(trouble: { status: number | null; code: string | null; message: string }): void;
}

/** After this long without a byte a reader gives a connection up. */
const SILENCE_MS = 30_000;

export class SimStream {
  readonly topics: readonly string[];
  readonly #sim: Sim;
  readonly #life: Life;
  readonly #reader: StreamReader;
  readonly #onServerEnd: (stream: SimStream) => void;
  #lastAt = 0;
  #clientOpen = true;
  #serverOpen = true;

  constructor(
    sim: Sim,
    life: Life,
    topics: readonly string[],
    reader: StreamReader,
    onServerEnd: (stream: SimStream) => void,
  ) {
    this.#sim = sim;
    this.#life = life;
    this.topics = topics;
    this.#reader = reader;
    this.#onServerEnd = onServerEnd;
    life.onEnd(() => this.serverEnd());
  }

  send(frame: Frame): void {
    if (!this.#serverOpen) return;
    this.#later(frame.type, () => this.#reader.frame(frame));
  }

  opened(): void {
    this.#later('open', () => this.#reader.opened());
  }

  /** The reader went away. */
  close(): void {
    this.#clientOpen = false;
    this.serverEnd();
  }

  /** The server's side is over; the reader learns of it after what was sent before. */
  end(message: string): void {
    if (!this.#serverOpen) return;
    this.#later('closed', () => this.#break(message));
    this.serverEnd();
  }

  /** The connection breaks: noticed at once by both, or between machines by silence. */
  cut(): void {
    const { random, timeline, hosts } = this.#sim;
    const silent = this.#life.machine !== hosts[0]?.machine && random.chance(0.3);
    this.#lastAt = Number.POSITIVE_INFINITY;
    timeline.after(silent ? SILENCE_MS : 2, this.#life, 'stream cut', () => this.#break('the stream was cut'));
    timeline.after(silent ? random.between(1_000, 40_000) : 2, null, 'stream gone', () => this.serverEnd(), true);
  }

  serverEnd(): void {
    if (!this.#serverOpen) return;
    this.#serverOpen = false;
    this.#onServerEnd(this);
  }

  #break(message: string): void {
    if (!this.#clientOpen) return;
    this.#clientOpen = false;
    this.#reader.closed(message);
  }

  /** In the order of sending. */
  #later(what: string, run: () => void): void {
    const { timeline, random } = this.#sim;
    const delay = random.chance(this.#sim.profile.slow) ? random.between(10, 2_000) : random.between(1, 8);
    const at = Math.max(this.#lastAt, timeline.now + delay);
    if (at === Number.POSITIVE_INFINITY) return;
    this.#lastAt = at;
    timeline.after(at - timeline.now, this.#life, `stream ${what}`, () => {
      if (this.#clientOpen) run();
    });
  }
}

interface ServerParts {
  readonly life: Life;
  readonly engine: Engine;
  readonly log: MemoryLog;
  readonly liveness: LivenessTable;
}

export class SimStreams {
  readonly #sim: Sim;
  readonly #parts: () => ServerParts | null;
  readonly #open = new Set<SimStream>();

  constructor(sim: Sim, parts: () => ServerParts | null) {
    this.#sim = sim;
    this.#parts = parts;
  }

  get all(): readonly SimStream[] {
    return [...this.#open];
  }

  /** Connects; the reader may close the stream with the returned function at any time. */
  open(
    life: Life,
    query: { wait: string } | { lease: string } | { host: string },
    cursor: string | null,
    reader: StreamReader,
  ): () => void {
    const { timeline, random } = this.#sim;
    let stream: SimStream | null = null;
    let given = false;
    const nobody = (): void => {
      if (!given && stream === null) reader.failed(noAnswer('connection refused') as never);
    };
    const connect = async (): Promise<void> => {
      const parts = this.#parts();
      if (given || !life.alive) return;
      if (parts === null || !parts.life.alive) timeline.after(1, life, 'stream found nobody', nobody);
      else if (parts.life.standsUntil > timeline.now) {
        timeline.after(1, parts.life, 'stream is accepted late', connect);
        parts.life.onEnd(() => timeline.after(2, life, 'stream found nobody after all', nobody));
      } else stream = await this.#accept(parts, life, query, cursor, reader);
    };
    timeline.after(random.between(1, 10), null, 'stream asked for', connect);
    return () => {
      given = true;
      stream?.close();
    };
  }

  publish(events: readonly SequencedEvent[], ended: readonly ArchiveRow[]): void {
    const parts = this.#parts();
    if (parts === null) return;
    const { state, epoch } = parts.engine;
    const id = formatCursor(epoch, state.seq);
    const moved = movedBy(state, events, ended);
    for (const stream of [...this.#open]) {
      for (const [leaseId, lease] of moved.leases) {
        const follows = stream.topics.includes(`lease:${leaseId}`);
        if (follows) stream.send({ id, type: 'lease', data: { lease: leaseView(state, lease) } });
      }
      for (const [waitId, ending] of moved.endedWaits) {
        if (stream.topics.includes(`wait:${waitId}`)) sendEnd(stream, id, ending);
      }
      for (const [hostId, reason] of moved.hosts) {
        if (stream.topics.includes(`host:${hostId}`)) stream.send({ id, type: 'host_work', data: { reason } });
      }
    }
  }

  closeAll(): void {
    for (const stream of [...this.#open]) stream.cut();
    this.#open.clear();
  }

  async #accept(
    parts: ServerParts,
    life: Life,
    query: { wait?: string; lease?: string; host?: string },
    cursor: string | null,
    reader: StreamReader,
  ): Promise<SimStream | null> {
    const { state, epoch } = parts.engine;
    const id = formatCursor(epoch, state.seq);
    const fail = (code: string): null => {
      const trouble = refusedWith(code, `the stream was refused: ${code}`) as never;
      this.#sim.timeline.after(2, life, `stream refused ${code}`, () => reader.failed(trouble));
      return null;
    };
    if (query.host !== undefined) {
      if (!state.hosts.has(query.host)) return fail('HOST_NOT_FOUND');
      return this.#greet(this.#follow(life, [`host:${query.host}`], reader, []), id, epoch, []);
    }
    if (query.lease !== undefined) {
      const lease = state.leases.get(query.lease) ?? (await parts.log.readArchive('lease', query.lease));
      if (lease === null) return fail('LEASE_NOT_FOUND');
      const hold = parts.liveness.hold('lease', lease.lease_id);
      return this.#greet(this.#follow(life, [`lease:${lease.lease_id}`], reader, [hold]), id, epoch, [
        leaseView(state, lease),
      ]);
    }
    const waitId = query.wait ?? '';
    const oldest = await parts.log.oldestSeq();
    const wait = state.waits.get(waitId);
    if (wait === undefined) {
      const known = await parts.log.readArchive('wait', waitId);
      if (known === null) return fail('WAIT_NOT_FOUND');
      const stream = this.#follow(life, [`wait:${waitId}`], reader, []);
      this.#greet(
        stream,
        id,
        epoch,
        [],
        isExpired(cursor, epoch, state.seq, oldest) ? { status: 'ended', ended: known.ended } : null,
      );
      sendEnd(stream, id, known.ended);
      return stream;
    }
    const holds = [
      parts.liveness.hold('wait', waitId),
      ...leaseIds(wait).map((lease) => parts.liveness.hold('lease', lease)),
    ];
    const topics = [`wait:${waitId}`, ...leaseIds(wait).map((lease) => `lease:${lease}`)];
    const leases = await leasesOf(parts, state, wait);
    const views = leases.map((lease) => leaseView(state, lease));
    const expired = isExpired(cursor, epoch, state.seq, oldest) ? { status: 'pending' as const, ended: null } : null;
    return this.#greet(this.#follow(life, topics, reader, holds), id, epoch, views, expired);
  }

  #greet(
    stream: SimStream,
    id: string,
    epoch: string,
    leases: ReturnType<typeof leaseView>[],
    expired: { status: 'pending' | 'ended'; ended: EndedWait | null } | null = null,
  ): SimStream {
    stream.opened();
    stream.send({ id, type: 'open', data: { cursor: id, epoch } });
    if (expired !== null) stream.send({ id, type: 'cursor_expired', data: { cursor: id, wait: expired, leases } });
    else for (const lease of leases) stream.send({ id, type: 'lease', data: { lease } });
    return stream;
  }

  #follow(life: Life, topics: readonly string[], reader: StreamReader, holds: (() => void)[]): SimStream {
    const stream = new SimStream(this.#sim, life, topics, reader, (ended) => {
      this.#open.delete(ended);
      for (const release of holds) release();
    });
    this.#open.add(stream);
    return stream;
  }
}

function sendEnd(stream: SimStream, id: string, ended: EndedWait): void {
  if (ended.outcome === 'abandoned') {
    const fields = { wait_session_id: ended.wait_session_id, ...ended.state };
    stream.send({ id, type: 'error', data: { code: 'wait_abandoned', message: 'the wait was given up', fields } });
  } else {
    stream.send({ id, type: 'wait_ended', data: { ended } });
  }
  stream.end('the stream ended');
}

function isExpired(cursor: string | null, epoch: string, head: number, oldest: number): boolean {
  if (cursor === null) return false;
  const parsed = parseCursor(cursor);
  return parsed === null || parsed.epoch !== epoch || parsed.seq > head || parsed.seq + 1 < oldest;
}

const leaseIds = (wait: Wait): string[] => [
  ...new Set(wait.conditions.flatMap((condition) => (condition.type === 'lease' ? [condition.lease_id] : []))),
];

async function leasesOf(parts: ServerParts, state: State, wait: Wait): Promise<Lease[]> {
  const leases: Lease[] = [];
  for (const id of leaseIds(wait)) {
    const lease = state.leases.get(id) ?? (await parts.log.readArchive('lease', id));
    if (lease !== null && lease !== undefined) leases.push(lease);
  }
  return leases;
}
