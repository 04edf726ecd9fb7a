/** The grammar of wait conditions: `TYPE:key=value,...` or `TYPE:VALUE` for the type's first key. */
import { parseDurationMs } from './duration.ts';

export type ParsedCondition =
  | { type: 'lease'; lease_id: string; state: 'provisioning' | 'active' | 'reaped' | null }
  | { type: 'timer'; at: number };

export interface ConditionProblem {
  message: string;
  /** Offset of the offending token in the condition's text. */
  position: number;
  nearest: string | null;
}

interface ConditionType {
  readonly keys: readonly string[];
  readonly defaultKey: string;
  readonly sentence: string;
}

export const CONDITION_TYPES: Readonly<Record<ParsedCondition['type'], ConditionType>> = {
  lease: {
    keys: ['id', 'state'],
    defaultKey: 'id',
    sentence: 'lease:id=UUID[,state=provisioning|active|reaped]: the lease leaves the queue, or reaches that state',
  },
  timer: {
    keys: ['in', 'at'],
    defaultKey: 'in',
    sentence: 'timer:in=DURATION or timer:at=ISO: the clock of the coordinator passes it',
  },
};

const UUID = /^[0-9a-f]{4}(-?[0-9a-f]{4}){7}$/i;
const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/;
const LEASE_WAIT_STATES = ['provisioning', 'active', 'reaped'] as const;

/** Every spelling of a UUID (braces, capitals, dashes after any four digits or none) in its canonical form; null when it is none. */
export function canonicalUuid(text: string): string | null {
  const bare = text.replace(/^\{(.*)\}$/, '$1');
  if (!UUID.test(bare)) return null;
  const hex = bare.replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

type Parsed = { ok: true; condition: ParsedCondition } | { ok: false; problem: ConditionProblem };

const problem = (message: string, position: number, nearest: string | null = null): Parsed => ({
  ok: false,
  problem: { message, position, nearest },
});

/** Parses one condition; `now` is the coordinator's clock, for relative timers. */
export function parseCondition(text: string, now: number): Parsed {
  const colon = text.indexOf(':');
  if (colon === -1) return problem(`'${text}' is no condition: it has no ':'`, 0, 'lease:id=UUID');
  const type = text.slice(0, colon);
  if (!Object.hasOwn(CONDITION_TYPES, type)) {
    return problem(`unknown condition type '${type}'`, 0, nearestOf(type, Object.keys(CONDITION_TYPES)));
  }
  const fields = parseFields(text, colon + 1, CONDITION_TYPES[type as ParsedCondition['type']]);
  if (!(fields instanceof Map)) return { ok: false, problem: fields };
  return type === 'lease' ? leaseCondition(fields, text) : timerCondition(fields, now, text);
}

interface Field {
  value: string;
  position: number;
}

function parseFields(text: string, from: number, type: ConditionType): Map<string, Field> | ConditionProblem {
  const fields = new Map<string, Field>();
  let position = from;
  for (const part of text.slice(from).split(',')) {
    const equals = part.indexOf('=');
    const key = equals === -1 ? type.defaultKey : part.slice(0, equals);
    if (equals === -1 && fields.size > 0) return { message: `'${part}' has no key`, position, nearest: null };
    if (!type.keys.includes(key))
      return { message: `unknown key '${key}'`, position, nearest: nearestOf(key, type.keys) };
    if (fields.has(key)) return { message: `key '${key}' is given twice`, position, nearest: null };
    fields.set(key, { value: part.slice(equals + 1), position: position + equals + 1 });
    position += part.length + 1;
  }
  return fields;
}

function leaseCondition(fields: Map<string, Field>, text: string): Parsed {
  const id = fields.get('id');
  if (id === undefined) return problem('a lease condition needs id=UUID', text.length);
  const leaseId = canonicalUuid(id.value);
  if (leaseId === null) return problem(`'${id.value}' is no lease id (a UUID)`, id.position);
  const state = fields.get('state');
  if (state === undefined) return { ok: true, condition: { type: 'lease', lease_id: leaseId, state: null } };
  const known = LEASE_WAIT_STATES.find((name) => name === state.value);
  if (known === undefined) {
    return problem(
      `'${state.value}' is no state to wait for`,
      state.position,
      nearestOf(state.value, LEASE_WAIT_STATES),
    );
  }
  return { ok: true, condition: { type: 'lease', lease_id: leaseId, state: known } };
}

function timerCondition(fields: Map<string, Field>, now: number, text: string): Parsed {
  const inField = fields.get('in');
  const atField = fields.get('at');
  if (inField !== undefined && atField !== undefined)
    return problem('a timer has in= or at=, not both', atField.position);
  if (inField !== undefined) {
    try {
      return { ok: true, condition: { type: 'timer', at: now + parseDurationMs(inField.value) } };
    } catch {
      return problem(`'${inField.value}' is no duration (90, 90s, 5m, 2h)`, inField.position);
    }
  }
  if (atField === undefined) return problem('a timer needs in=DURATION or at=ISO', text.length);
  const at = ISO_TIME.test(atField.value) ? Date.parse(atField.value) : Number.NaN;
  if (Number.isNaN(at)) return problem(`'${atField.value}' is no ISO time`, atField.position);
  return { ok: true, condition: { type: 'timer', at } };
}

/** A condition as text, in its canonical spelling. */
export function formatCondition(condition: ParsedCondition): string {
  if (condition.type === 'timer') return `timer:at=${new Date(condition.at).toISOString()}`;
  return condition.state === null
    ? `lease:id=${condition.lease_id}`
    : `lease:id=${condition.lease_id},state=${condition.state}`;
}

/** The known name nearest to what was typed, when it is near enough to be meant. */
export function nearestOf(typed: string, known: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.max(2, Math.floor(typed.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(typed.toLowerCase(), name.toLowerCase());
    if (distance < bestDistance || (name.startsWith(typed) && typed.length > 0 && best === null)) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substitute = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitute, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
