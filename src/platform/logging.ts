/** Structured lines on stderr, for services and for whoever debugs a command. Messages to people are messages.ts. */
import { systemClock } from './clock.ts';
import { Failure } from './failure.ts';
import { TOKEN_PATTERN } from './random.ts';
import { isTTY, writeStderr } from './terminal.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

const RANKS: Readonly<Record<LogLevel, number>> = { debug: 10, info: 20, warn: 30, error: 40, silent: 99 };

let threshold: LogLevel | undefined;
let lineFormat: 'json' | 'text' | undefined;

/** What a service or a flag decides; otherwise BOTBUDDY_LOG_LEVEL (`warn`) and the kind of stderr do. */
export function configureLogging(options: { level?: LogLevel; format?: 'json' | 'text' }): void {
  threshold = options.level ?? threshold;
  lineFormat = options.format ?? lineFormat;
}

export function logger(component: string): Logger {
  const at = (level: LogLevel) => (message: string, fields?: LogFields) => {
    threshold ??= levelFrom(process.env['BOTBUDDY_LOG_LEVEL']);
    if (RANKS[level] < RANKS[threshold]) return;
    lineFormat ??= isTTY('stderr') ? 'text' : 'json';
    writeStderr(renderLine(lineFormat, systemClock.wallMs(), level, component, message, fields ?? {}));
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

export function renderLine(
  format: 'json' | 'text',
  wallMs: number,
  level: LogLevel,
  component: string,
  message: string,
  fields: LogFields,
): string {
  const at = new Date(wallMs).toISOString();
  if (format === 'json') {
    return redact(`${JSON.stringify({ at, level, component, message, ...fields }, plainError)}\n`);
  }
  const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${JSON.stringify(value, plainError)}`);
  return redact(`${at} ${level} ${component}: ${message}${rest.join('')}\n`);
}

function levelFrom(text: string | undefined): LogLevel {
  const known = Object.keys(RANKS).find((level) => level === text?.toLowerCase());
  return (known as LogLevel | undefined) ?? 'warn';
}

function plainError(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (!(value instanceof Error)) return value;
  const failure = value instanceof Failure ? { code: value.code, ...value.fields } : {};
  return { error: value.message, ...failure, ...(value.cause === undefined ? {} : { cause: value.cause }) };
}

function redact(line: string): string {
  return line.replace(TOKEN_PATTERN, (token) => `${token.slice(0, token.indexOf('_') + 1)}<redacted>`);
}
