import { describe, expect, test } from 'bun:test';
import { readStream, type StreamEnd, type StreamOptions } from '../../src/client/stream-reader.ts';
import type { Frame } from '../../src/protocol/stream-frames.ts';
import { eventually } from '../support/eventually.ts';
import { makeStandIn, nonsense, refuse, type StandIn, type StreamPen, streamTo } from './_stand-in.ts';

const leaseMoved = (seq: number): Frame => ({ id: `e.${seq}`, type: 'host_work', data: { reason: `r${seq}` } });

function read(stand: StandIn, options: Partial<StreamOptions> = {}): Promise<StreamEnd> {
  const signal = new AbortController().signal;
  return readStream(stand.client, { query: { wait: 'w' }, lastEventId: null, signal, onFrame: () => {}, ...options });
}

describe('a stream', () => {
  test('is read frame by frame, however it is cut into chunks, and resumed after the last one', async () => {
    await using stand = await makeStandIn();
    const frames: Frame[] = [];
    stand.script(
      'stream',
      streamTo((pen) => {
        const text = `: hello\n\nid: e.1\nevent: host_work\ndata: {"reason":\ndata: "é"}\n\n`;
        for (const character of text) pen.raw(character);
        pen.raw('event: farewell\ndata: {"reason":"idle"}\n\nid: e.9\nevent: unfin');
        pen.end();
      }),
    );
    const end = await read(stand, { lastEventId: 'e.0', onFrame: (frame) => frames.push(frame) });
    expect(frames).toEqual([
      { id: 'e.1', type: 'host_work', data: { reason: 'é' } },
      { id: null, type: 'farewell', data: { reason: 'idle' } },
    ]);
    expect(end).toMatchObject({ type: 'closed', reason: 'ended', lastEventId: 'e.1' });
    const [seen] = stand.calls('stream');
    expect(seen?.search).toBe('?wait=w');
    expect(seen?.headers.get('last-event-id')).toBe('e.0');
    expect(stand.client.headers()['x-botbuddy-seen-seq']).toBe('1');
  });

  test('that is cut again and again and resumed leaves no gap and brings nothing twice', async () => {
    await using stand = await makeStandIn();
    const last = 60;
    const seenSeqs: number[] = [];
    stand.script(
      'stream',
      streamTo((pen, { headers }) => {
        const from = Number(headers.get('last-event-id')?.slice(2) ?? 0);
        const upTo = Math.min(last, from + 1 + Math.floor(Math.random() * 5));
        for (let seq = from + 1; seq <= upTo; seq += 1) pen.send(leaseMoved(seq));
        pen.raw(`id: e.${upTo + 1}\nevent: host_work\ndata: {"rea`);
        pen.end();
      }),
    );
    let lastEventId: string | null = null;
    while (seenSeqs.at(-1) !== last) {
      const onFrame = ({ id }: Frame) => seenSeqs.push(Number(id?.slice(2)));
      ({ lastEventId } = await read(stand, { lastEventId, onFrame }));
    }
    expect(seenSeqs).toEqual(Array.from({ length: last }, (_, index) => index + 1));
  });

  test('in which nothing comes, not even a comment, is half-open and left', async () => {
    await using stand = await makeStandIn();
    stand.script(
      'stream',
      streamTo((pen) => pen.send(leaseMoved(4))),
    );
    expect(await read(stand, { silenceMs: 60 })).toEqual({
      type: 'closed',
      reason: 'silent',
      message: 'the event stream was silent for too long',
      lastEventId: 'e.4',
    });
  });

  test('is kept open by comments alone', async () => {
    await using stand = await makeStandIn();
    const opened = Promise.withResolvers<StreamPen>();
    stand.script('stream', streamTo(opened.resolve));
    const reading = read(stand, { silenceMs: 200 });
    const pen = await opened.promise;
    const started = performance.now();
    const beatsUntilLate = () => {
      pen.raw(': beat\n\n');
      return performance.now() - started > 500;
    };
    await eventually('more than two silences have passed', beatsUntilLate, { everyMs: 40 });
    pen.end();
    expect(await reading).toMatchObject({ type: 'closed', reason: 'ended' });
  });

  test('whose connection breaks says so', async () => {
    await using stand = await makeStandIn();
    const opened = Promise.withResolvers<StreamPen>();
    stand.script('stream', streamTo(opened.resolve));
    const heard = Promise.withResolvers<Frame>();
    const reading = read(stand, { onFrame: heard.resolve });
    (await opened.promise).send(leaseMoved(1));
    await heard.promise;
    await stand.stop();
    expect(await reading).toMatchObject({ type: 'closed' });
  });

  test('with a frame that is no JSON is cut', async () => {
    await using stand = await makeStandIn();
    stand.script(
      'stream',
      streamTo((pen) => pen.raw('event: lease\ndata: {{{\n\n')),
    );
    expect(await read(stand)).toMatchObject({ type: 'closed', reason: 'cut' });
  });

  test('that its reader leaves ends at once', async () => {
    await using stand = await makeStandIn();
    const abort = new AbortController();
    stand.script(
      'stream',
      streamTo((pen) => pen.send(leaseMoved(1))),
    );
    expect(await read(stand, { signal: abort.signal, onFrame: () => abort.abort() })).toEqual({
      type: 'aborted',
      lastEventId: 'e.1',
    });
  });

  test('that was never opened says with which status and code, or that there was no answer', async () => {
    await using stand = await makeStandIn();
    stand.script('stream', refuse(404, 'WAIT_NOT_FOUND'), nonsense);
    const trouble = { status: 404, code: 'WAIT_NOT_FOUND', message: 'no: WAIT_NOT_FOUND' };
    expect(await read(stand)).toEqual({ type: 'failed', trouble, lastEventId: null });
    expect(await read(stand)).toMatchObject({ type: 'failed', trouble: { status: null } });
    await stand.stop();
    expect(await read(stand)).toMatchObject({ type: 'failed', trouble: { status: null, code: 'ENOENT' } });
  });
});
