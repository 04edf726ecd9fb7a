/**
 * The only caller of the coordinator's tools. One attempt is one request with its whole answer and a typed result;
 * `call` repeats attempts by their outcome until its deadline. Must not decide what a refusal means for a command.
 * Read next: call-policy.ts for what is repeated, coordinator-finder.ts for whom it talks to.
 */
import { Failure } from '../platform/failure.ts';
import { jitter } from '../platform/random.ts';
import { writeStderr } from '../platform/terminal.ts';
import { type Deadline, deadlineIn, sleepMs } from '../platform/timers.ts';
import type { ToolCalls, ToolName } from '../protocol/tool-calls.ts';
import { SEEN_SEQ_HEADER, VERSION, VERSION_HEADER } from '../protocol/version.ts';
import type { AuthenticationHalf } from './authentication-half.ts';
import { mayRepeat, pauseMsBefore } from './call-policy.ts';
import { CoordinatorFinder, type FinderOptions, type Found } from './coordinator-finder.ts';
import { silentWords, withFirstContactCheck } from './first-contact.ts';
import { type Exchanged, exchange, NoAnswer } from './http-exchange.ts';
import type { Trouble } from './incident-rules.ts';
import { agreementOf } from './version-handshake.ts';

export interface CallOptions {
  /** Over everything: start, repetitions, bodies. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface AttemptOptions {
  timeoutMs: number;
  signal?: AbortSignal;
  /** Whether an absent embedded coordinator is started for it. */
  mayStart?: boolean;
}

export type Attempt<N extends ToolName = ToolName> =
  | { ok: true; result: ToolCalls[N]['result'] }
  | {
      ok: false;
      trouble: Trouble;
      fields: Record<string, unknown>;
      /** `no`: it never left. `maybe`: nobody knows whether it arrived. */
      sent: 'no' | 'maybe' | 'answered';
      /** Trying again at once cannot help. */
      final: boolean;
    };

type Failed = Extract<Attempt, { ok: false }>;

const CALL_TIMEOUT_MS = 15_000;
const ATTEMPT_TIMEOUT_MS = 10_000;
/** A process that says it listens, and at first refuses every connection, is not waited for. */
const FIRST_CONTACT_MS = 1_500;

export interface ClientOptions extends FinderOptions {
  authentication: AuthenticationHalf;
  /** What it says of itself; this program's version by default. */
  version?: string;
  /** What a person should know while a call goes on; to stderr by default. */
  onNotice?: (notice: string) => void;
}

export class CoordinatorClient {
  readonly authentication: AuthenticationHalf;
  readonly finder: CoordinatorFinder;
  readonly #version: string;
  readonly #onNotice: (notice: string) => void;
  readonly #told = new Set<string>();
  #seenSeq = 0;
  #contacted = false;

  constructor(options: ClientOptions) {
    this.#version = options.version ?? VERSION;
    this.#onNotice = options.onNotice ?? ((notice) => writeStderr(`botbuddy: ${notice}\n`));
    this.authentication = options.authentication;
    this.finder = new CoordinatorFinder(options);
  }

  /** Throws a `Failure`: the refusal's own code, or `platform_unreachable`, `unauthenticated`, `interrupted`. */
  async call<N extends ToolName>(
    name: N,
    args: ToolCalls[N]['args'],
    { timeoutMs = CALL_TIMEOUT_MS, signal }: CallOptions = {},
  ): Promise<ToolCalls[N]['result']> {
    const deadline = deadlineIn(timeoutMs);
    const contactDeadline = deadlineIn(Math.min(timeoutMs, FIRST_CONTACT_MS));
    let refreshed = false;
    for (let repetition = 1; ; repetition += 1) {
      const attemptMs = Math.min(ATTEMPT_TIMEOUT_MS, deadline.remainingMs());
      const attempt = await this.attempt(name, args, { timeoutMs: attemptMs, ...(signal ? { signal } : {}) });
      if (attempt.ok) return attempt.result;
      if (signal?.aborted) throw new Failure('interrupted', `the call of ${name} was interrupted`);
      const failed: Failed = attempt;
      if (failed.trouble.status === 401 && !refreshed) {
        refreshed = true;
        if (await this.#hasNewerCredential(signal)) continue;
      }
      const pauseMs = pauseMsBefore(repetition, jitter(1));
      const refusing = !this.#contacted && failed.sent === 'no' && this.finder.isEmbedded;
      const leftMs = (refusing ? contactDeadline : deadline).remainingMs();
      if (!mayRepeat(name, failed) || pauseMs >= leftMs) throw failureOf(name, failed);
      await sleepMs(pauseMs, signal);
    }
  }

  /** One try, never thrown: what parks and heartbeats build on. */
  async attempt<N extends ToolName>(
    name: N,
    args: ToolCalls[N]['args'],
    { timeoutMs, signal, mayStart = true }: AttemptOptions,
  ): Promise<Attempt<N>> {
    const deadline = deadlineIn(timeoutMs);
    try {
      const found = await this.finder.find(deadline, mayStart);
      if (found === null) return failed('no', null, 'no coordinator runs here', !deadline.expired());
      const first = await this.#exchange(found, name, args, deadline, signal);
      if (first.ok || first.sent === 'answered') return first;
      const isAnother = this.finder.lookAgain(found);
      if (first.sent === 'maybe') return first;
      if (!isAnother) return { ...first, trouble: { ...first.trouble, message: silentWords(found) } };
      const other = await this.finder.find(deadline, mayStart);
      return other === null ? first : await this.#exchange(other, name, args, deadline, signal);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      return { ...failed('no', error.code, error.message, true), fields: { ...error.fields } };
    }
  }

  /** What every request carries. */
  headers(): Record<string, string> {
    const token = this.authentication.token();
    return {
      [VERSION_HEADER]: this.#version,
      [SEEN_SEQ_HEADER]: String(this.#seenSeq),
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    };
  }

  /** Null when this client and a coordinator of that version may work together. */
  mismatchWith(coordinator: string): Trouble | null {
    const agreement = agreementOf(this.#version, coordinator);
    if (agreement === 'compatible') return null;
    const isEmbedded = this.finder.isEmbedded;
    const repair =
      agreement === 'client_is_older'
        ? 'update this botbuddy'
        : `update the coordinator${isEmbedded ? ": 'botbuddy serve --stop', and the next command starts a newer one" : ''}`;
    const message = `this botbuddy is ${this.#version}, the coordinator ${coordinator}: ${repair}`;
    return { status: 426, code: 'version_mismatch', message };
  }

  sawSeq(seq: number): void {
    if (seq > this.#seenSeq) this.#seenSeq = seq;
  }

  async #exchange<N extends ToolName>(
    found: Found,
    name: N,
    args: ToolCalls[N]['args'],
    deadline: Deadline,
    signal: AbortSignal | undefined,
  ): Promise<Attempt<N>> {
    const abort = new AbortController();
    const onAbort = () => abort.abort();
    const timer = new AbortController();
    void sleepMs(deadline.remainingMs(), timer.signal).then((end) => end === 'elapsed' && abort.abort());
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) abort.abort();
    try {
      const request = { method: 'POST' as const, path: `/v1/tools/${name}`, headers: this.headers(), body: args };
      const pending = exchange(found, { ...request, signal: abort.signal });
      const answer = this.#contacted ? await pending : await withFirstContactCheck(found, pending, this.#tell);
      if (answer !== 'stopped') return this.#judge<N>(answer);
      abort.abort();
      await pending.catch(() => null);
      return failed('maybe', 'platform_unreachable', silentWords(found), true);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      return failed(error.sent, error.errno, error.message);
    } finally {
      timer.abort();
      signal?.removeEventListener('abort', onAbort);
    }
  }

  #judge<N extends ToolName>({ status, headers, body }: Exchanged): Attempt<N> {
    const version = headers.get(VERSION_HEADER);
    if (version === null || !isAnswer(body))
      return failed('maybe', null, `what answered (${status}) is no coordinator`);
    this.#contacted = true;
    const mismatch = this.mismatchWith(version);
    if (mismatch !== null) {
      return { ...failed('answered', mismatch.code, mismatch.message, true), trouble: mismatch };
    }
    this.sawSeq(body.seq);
    if (body.ok) return { ok: true, result: body.result as ToolCalls[N]['result'] };
    const { code, message, fields } = body.error;
    return { ok: false, trouble: { status, code, message }, fields, sent: 'answered', final: false };
  }

  /** Each notice once, however many calls have reason for it. */
  readonly #tell = (notice: string): void => {
    if (this.#told.has(notice)) return;
    this.#told.add(notice);
    this.#onNotice(notice);
  };

  async #hasNewerCredential(signal: AbortSignal | undefined): Promise<boolean> {
    const before = this.authentication.token();
    const verdict = await this.authentication.refresh(signal ?? new AbortController().signal);
    return verdict.type === 'ready' && this.authentication.token() !== before;
  }
}

function failed(sent: Failed['sent'], code: string | null, message: string, final = false): Failed {
  return { ok: false, trouble: { status: null, code, message }, fields: {}, sent, final };
}

type Answer =
  | { ok: true; seq: number; result: unknown }
  | { ok: false; seq: number; error: { code: string; message: string; fields: Record<string, unknown> } };

function isAnswer(body: unknown): body is Answer {
  if (typeof body !== 'object' || body === null || !('ok' in body) || !('seq' in body)) return false;
  if (typeof body.seq !== 'number') return false;
  if (body.ok === true) return 'result' in body;
  const error = 'error' in body ? body.error : null;
  return typeof error === 'object' && error !== null && 'code' in error && 'message' in error && 'fields' in error;
}

/** A refusal keeps its own code and fields; everything without an answer is `platform_unreachable`. */
function failureOf(name: ToolName, { trouble, fields, sent }: Failed): Failure {
  if (sent === 'answered' || trouble.code === 'embedded_start_failed' || trouble.code?.startsWith('state_')) {
    return new Failure(trouble.code ?? 'internal', trouble.message, { fields });
  }
  const applied = sent === 'no' ? 'no' : 'unknown';
  return new Failure('platform_unreachable', trouble.message, { fields: { ...fields, tool: name, applied } });
}
