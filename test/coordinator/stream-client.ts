/** Reads a stream frame by frame, over a real connection. */
import { createParser } from 'eventsource-parser';
import type { Frame, FrameType, StreamFrames } from '../../src/protocol/stream-frames.ts';

export interface OpenStream extends Disposable {
  readonly status: number;
  readonly headers: Headers;
  /** Everything so far, comments too. */
  readonly frames: Frame[];
  readonly comments: string[];
  readonly lastEventId: () => string | null;
  /** The next frame of the type that was not taken yet. */
  next<T extends FrameType>(type: T): Promise<StreamFrames[T]>;
  /** Resolves when the server ended the stream. */
  readonly ended: Promise<void>;
  body(): Promise<unknown>;
}

export async function openStream(url: string, token: string, lastEventId?: string): Promise<OpenStream> {
  const cut = new AbortController();
  const headers = {
    authorization: `Bearer ${token}`,
    ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
  };
  const response = await fetch(url, { headers, signal: cut.signal });
  const frames: Frame[] = [];
  const comments: string[] = [];
  let taken = 0;
  let wake = Promise.withResolvers<void>();
  let over = false;
  const arrived = () => {
    wake.resolve();
    wake = Promise.withResolvers();
  };
  const parser = createParser({
    onEvent: ({ id, event, data }) => {
      frames.push({ id: id ?? null, type: event, data: JSON.parse(data) } as Frame);
      arrived();
    },
    onComment: (comment) => {
      comments.push(comment);
      arrived();
    },
  });
  const isStream = response.headers.get('content-type') === 'text/event-stream';
  const ended = isStream ? pump(response, parser.feed) : Promise.resolve();
  void ended.then(() => {
    over = true;
    arrived();
  });
  return {
    status: response.status,
    headers: response.headers,
    frames,
    comments,
    ended,
    lastEventId: () => frames.findLast(({ id }) => id !== null)?.id ?? null,
    body: () => response.json(),
    next: async (type) => {
      for (;;) {
        for (; taken < frames.length; taken += 1) {
          const frame = frames[taken];
          if (frame?.type !== type) continue;
          taken += 1;
          return frame.data as never;
        }
        if (over) throw new Error(`the stream ended without ${type}: ${JSON.stringify(frames.map((f) => f.type))}`);
        await wake.promise;
      }
    },
    [Symbol.dispose]: () => cut.abort(),
  };
}

async function pump(response: Response, feed: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) feed(decoder.decode(chunk, { stream: true }));
  } catch {
    // Cut by the test, or by the server's end.
  }
}
