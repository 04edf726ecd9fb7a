/** One open stream: frames out, bounded by what its reader takes. `desiredSize` is the only backpressure there is. */
import type { Frame, FrameType, StreamFrames } from '../protocol/stream-frames.ts';

/** What may wait in this process for one reader, beside the buffers of the kernel. */
export const STREAM_BACKLOG_BYTES_MAX = 256 * 1024;

const encoder = new TextEncoder();
const BEAT = encoder.encode(': beat\n\n');

export function encodeFrame<T extends FrameType>(id: string | null, type: T, data: StreamFrames[T]): Uint8Array {
  const head = id === null ? '' : `id: ${id}\n`;
  return encoder.encode(`${head}event: ${type satisfies Frame['type']}\ndata: ${JSON.stringify(data)}\n\n`);
}

const SLOW_READER = encodeFrame(null, 'error', {
  code: 'slow_reader',
  message: 'the reader did not take what was sent; connect again with Last-Event-ID',
  fields: {},
});

export class EventStream {
  readonly topics: readonly string[];
  readonly body: ReadableStream<Uint8Array>;
  readonly #onEnd: (stream: EventStream) => void;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #ended = false;

  constructor(topics: readonly string[], onEnd: (stream: EventStream) => void) {
    this.topics = topics;
    this.#onEnd = onEnd;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        cancel: () => this.#finish(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: STREAM_BACKLOG_BYTES_MAX }),
    );
  }

  get ended(): boolean {
    return this.#ended;
  }

  send(frame: Uint8Array): void {
    const controller = this.#controller;
    if (this.#ended || controller === null) return;
    if ((controller.desiredSize ?? 0) > 0) {
      controller.enqueue(frame);
      return;
    }
    controller.enqueue(SLOW_READER);
    this.end();
  }

  beat(): void {
    this.send(BEAT);
  }

  /** The last frame was sent: no more will come. */
  end(): void {
    if (this.#ended) return;
    this.#finish();
    this.#controller?.close();
  }

  #finish(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onEnd(this);
  }
}
