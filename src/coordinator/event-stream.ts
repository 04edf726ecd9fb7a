/**
 * The streams: the committed tail of the log, filtered to what each reader follows. A stream is subscribed in the same
 * step that reads its first state, so that nothing falls between. What a reader missed of a lease comes as the lease's
 * present view; the outcome of its wait is never collapsed, since a wait has exactly one.
 */
import type { SequencedEvent } from '../core/events.ts';
import type { ArchiveRow, Principal, Refusal } from '../core/inputs.ts';
import type { EndedWait, Lease, State, Wait } from '../core/model.ts';
import { leaseView } from '../core/views.ts';
import type { EventLog } from '../log/event-log.ts';
import { every } from '../platform/timers.ts';
import { STREAM_BEAT_MS } from '../protocol/stream-frames.ts';
import { movedBy } from './_moved.ts';
import { QueuePlaces } from './_queue-places.ts';
import { EventStream, encodeFrame } from './_sse.ts';
import { formatCursor, parseCursor } from './cursor.ts';
import type { Engine } from './engine.ts';
import type { LivenessTable } from './liveness-table.ts';
import { isOwn } from './tool.ts';

export const STREAM_BOUNDS = { streamsMax: 20_000, sentPerTurnMax: 500 } as const;

export type Opened = { ok: true; body: ReadableStream<Uint8Array> } | { ok: false; refusal: Refusal };

export interface StreamHubOptions {
  engine: Engine;
  log: EventLog;
  liveness: LivenessTable;
  beatMs?: number;
}

const refused = (code: string, message: string): Opened => ({ ok: false, refusal: { code, message, fields: {} } });

export class StreamHub {
  readonly #engine: Engine;
  readonly #log: EventLog;
  readonly #liveness: LivenessTable;
  readonly #streams = new Set<EventStream>();
  readonly #byTopic = new Map<string, Set<EventStream>>();
  readonly #places = new QueuePlaces();
  readonly #stops: (() => void)[];

  constructor({ engine, log, liveness, beatMs = STREAM_BEAT_MS }: StreamHubOptions) {
    this.#engine = engine;
    this.#log = log;
    this.#liveness = liveness;
    this.#stops = [
      engine.subscribe((events, ended) => this.#publish(events, ended)),
      every(beatMs, () => void this.#toAll((stream) => stream.beat())),
    ];
  }

  get size(): number {
    return this.#streams.size;
  }

  /** True while somebody other than a Helper listens. */
  get hasWaiters(): boolean {
    return [...this.#streams].some((stream) => !stream.topics[0]?.startsWith('host:'));
  }

  async openWait(waitId: string, caller: Principal, lastEventId: string | null): Promise<Opened> {
    if (this.#streams.size >= STREAM_BOUNDS.streamsMax) return refused('overloaded', 'too many streams are open');
    const oldest = await this.#log.oldestSeq();
    const gone = await this.#archivedLeasesOf(waitId);
    const opened = await this.#engine.look((state) => {
      const wait = state.waits.get(waitId);
      if (wait === undefined || !isOwn(wait, caller)) return null;
      const leases = leasesOf(state, wait, gone);
      const stream = this.#follow([`wait:${waitId}`, ...leaseTopics(wait)], this.#holdWait(wait));
      this.#greet(stream, state, lastEventId, oldest, leases, null);
      return stream;
    });
    if (opened !== null) return { ok: true, body: opened.body };
    return this.#openEnded(waitId, caller, lastEventId, oldest);
  }

  /** For a park whose wait could not be registered: the lease alone, as its owner sees it. */
  async openLease(leaseId: string, caller: Principal, lastEventId: string | null): Promise<Opened> {
    if (this.#streams.size >= STREAM_BOUNDS.streamsMax) return refused('overloaded', 'too many streams are open');
    const oldest = await this.#log.oldestSeq();
    const gone = await this.#log.readArchive('lease', leaseId);
    return this.#engine.look((state): Opened => {
      const lease = state.leases.get(leaseId) ?? gone;
      if (lease === undefined || lease === null || !isOwn(lease, caller)) {
        return refused('LEASE_NOT_FOUND', `there is no lease ${leaseId}`);
      }
      const stream = this.#follow([`lease:${leaseId}`], this.#liveness.hold('lease', leaseId));
      this.#greet(stream, state, lastEventId, oldest, [lease], null);
      return { ok: true, body: stream.body };
    });
  }

  async openHost(hostId: string, lastEventId: string | null): Promise<Opened> {
    if (this.#streams.size >= STREAM_BOUNDS.streamsMax) return refused('overloaded', 'too many streams are open');
    return this.#engine.look((state): Opened => {
      if (!state.hosts.has(hostId)) return refused('HOST_NOT_FOUND', `host ${hostId} is not registered`);
      const stream = this.#follow([`host:${hostId}`], () => {});
      const cursor = formatCursor(this.#engine.epoch, state.seq);
      stream.send(encodeFrame(cursor, 'open', { cursor, epoch: this.#engine.epoch }));
      if (lastEventId !== cursor) stream.send(encodeFrame(cursor, 'host_work', { reason: 'resumed' }));
      return { ok: true, body: stream.body };
    });
  }

  /** Tells every reader that this coordinator ends by itself, and ends all streams. */
  async farewell(reason: string): Promise<void> {
    const frame = encodeFrame(null, 'farewell', { reason });
    await this.#toAll((stream) => {
      stream.send(frame);
      stream.end();
    });
  }

  close(): void {
    for (const stop of this.#stops) stop();
    for (const stream of [...this.#streams]) stream.end();
  }

  async #openEnded(waitId: string, caller: Principal, lastEventId: string | null, oldest: number): Promise<Opened> {
    const known = await this.#log.readArchive('wait', waitId);
    if (known === null || !isOwn(known.wait, caller)) {
      return refused('WAIT_NOT_FOUND', `there is no wait ${waitId}`);
    }
    return this.#engine.look((state): Opened => {
      const stream = this.#follow([`wait:${waitId}`], () => {});
      this.#greet(stream, state, lastEventId, oldest, [], known.ended);
      this.#sendEnd(stream, formatCursor(this.#engine.epoch, state.seq), known.ended);
      return { ok: true, body: stream.body };
    });
  }

  /** First what the stream follows from, then the present view of everything in it. */
  #greet(
    stream: EventStream,
    state: State,
    lastEventId: string | null,
    oldest: number,
    leases: readonly Lease[],
    ended: EndedWait | null,
  ): void {
    const cursor = formatCursor(this.#engine.epoch, state.seq);
    stream.send(encodeFrame(cursor, 'open', { cursor, epoch: this.#engine.epoch }));
    const views = leases.map((lease) => leaseView(state, lease));
    if (this.#isExpired(lastEventId, state.seq, oldest)) {
      const wait = { status: ended === null ? ('pending' as const) : ('ended' as const), ended };
      stream.send(encodeFrame(cursor, 'cursor_expired', { cursor, wait, leases: views }));
      return;
    }
    for (const lease of views) stream.send(encodeFrame(cursor, 'lease', { lease }));
  }

  #isExpired(lastEventId: string | null, head: number, oldest: number): boolean {
    if (lastEventId === null) return false;
    const cursor = parseCursor(lastEventId);
    return cursor === null || cursor.epoch !== this.#engine.epoch || cursor.seq > head || cursor.seq + 1 < oldest;
  }

  async #archivedLeasesOf(waitId: string): Promise<Map<string, Lease>> {
    const missing = await this.#engine.look((state) =>
      (state.waits.get(waitId)?.conditions ?? []).flatMap((condition) =>
        condition.type === 'lease' && !state.leases.has(condition.lease_id) ? [condition.lease_id] : [],
      ),
    );
    const found = new Map<string, Lease>();
    for (const id of missing) {
      const lease = await this.#log.readArchive('lease', id);
      if (lease !== null) found.set(id, lease);
    }
    return found;
  }

  #holdWait(wait: Wait): () => void {
    const holds = [this.#liveness.hold('wait', wait.wait_session_id)];
    for (const condition of wait.conditions) {
      if (condition.type === 'lease') holds.push(this.#liveness.hold('lease', condition.lease_id));
    }
    return () => {
      for (const release of holds) release();
    };
  }

  #follow(topics: readonly string[], release: () => void): EventStream {
    const stream = new EventStream(topics, (ended) => {
      this.#streams.delete(ended);
      for (const topic of ended.topics) {
        const followers = this.#byTopic.get(topic);
        followers?.delete(ended);
        if (followers?.size === 0) this.#byTopic.delete(topic);
      }
      release();
    });
    this.#streams.add(stream);
    for (const topic of topics) {
      const followers = this.#byTopic.get(topic);
      if (followers === undefined) this.#byTopic.set(topic, new Set([stream]));
      else followers.add(stream);
    }
    return stream;
  }

  #publish(events: readonly SequencedEvent[], ended: readonly ArchiveRow[]): void {
    if (this.#streams.size === 0) return;
    const { state, epoch } = this.#engine;
    const cursor = formatCursor(epoch, state.seq);
    const moved = movedBy(state, events, ended);
    for (const [id, lease] of this.#withShiftedPlaces(state, moved.leases)) {
      this.#toTopic(`lease:${id}`, () => encodeFrame(cursor, 'lease', { lease: leaseView(state, lease) }));
    }
    for (const [id, wait] of moved.endedWaits) {
      for (const stream of [...(this.#byTopic.get(`wait:${id}`) ?? [])]) this.#sendEnd(stream, cursor, wait);
    }
    for (const [id, reason] of moved.hosts) {
      this.#toTopic(`host:${id}`, () => encodeFrame(cursor, 'host_work', { reason }));
    }
  }

  /** The leases that moved, and the watched ones that moved up or down in a queue by it. */
  #withShiftedPlaces(state: State, moved: ReadonlyMap<string, Lease>): Map<string, Lease> {
    const all = new Map(moved);
    for (const { lease_id, state: now } of moved.values()) if (now !== 'queued') this.#places.forget(lease_id);
    const hosts = new Set([...moved.values()].map((lease) => lease.host_id));
    const isWatched = (id: string) => this.#byTopic.has(`lease:${id}`);
    for (const lease of this.#places.changed(state, hosts, isWatched)) all.set(lease.lease_id, lease);
    return all;
  }

  #sendEnd(stream: EventStream, cursor: string, ended: EndedWait): void {
    if (ended.outcome === 'abandoned') {
      const fields = { wait_session_id: ended.wait_session_id, ...ended.state };
      stream.send(encodeFrame(cursor, 'error', { code: 'wait_abandoned', message: 'the wait was given up', fields }));
    } else {
      stream.send(encodeFrame(cursor, 'wait_ended', { ended }));
    }
    stream.end();
  }

  #toTopic(topic: string, make: () => Uint8Array): void {
    const followers = this.#byTopic.get(topic);
    if (followers === undefined) return;
    const frame = make();
    for (const stream of [...followers]) stream.send(frame);
  }

  /** In portions, so that a broadcast to thousands does not hold up everybody's calls. */
  async #toAll(send: (stream: EventStream) => void): Promise<void> {
    let sent = 0;
    for (const stream of [...this.#streams]) {
      send(stream);
      sent += 1;
      if (sent % STREAM_BOUNDS.sentPerTurnMax === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

function leasesOf(state: State, wait: Wait, gone: ReadonlyMap<string, Lease>): Lease[] {
  const ids = wait.conditions.flatMap((condition) => (condition.type === 'lease' ? [condition.lease_id] : []));
  return [...new Set(ids)].flatMap((id) => state.leases.get(id) ?? gone.get(id) ?? []);
}

const leaseTopics = (wait: Wait): string[] => [
  ...new Set(
    wait.conditions.flatMap((condition) => (condition.type === 'lease' ? [`lease:${condition.lease_id}`] : [])),
  ),
];
