import { describe, expect, test } from 'bun:test';
import {
  CONDITION_TYPES,
  canonicalUuid,
  formatCondition,
  nearestOf,
  type ParsedCondition,
  parseCondition,
} from '../../src/protocol/conditions.ts';

const NOW = Date.parse('2031-05-06T07:08:09Z');
const ID = '0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab';

const parsed = (text: string): ParsedCondition => {
  const answer = parseCondition(text, NOW);
  if (!answer.ok) throw new Error(answer.problem.message);
  return answer.condition;
};
const problemOf = (text: string) => {
  const answer = parseCondition(text, NOW);
  if (answer.ok) throw new Error(`${text} was taken`);
  return answer.problem;
};

describe('a condition', () => {
  const rows: readonly [string, ParsedCondition][] = [
    [`lease:${ID}`, { type: 'lease', lease_id: ID, state: null }],
    [`lease:id=${ID}`, { type: 'lease', lease_id: ID, state: null }],
    [`lease:id=${ID},state=provisioning`, { type: 'lease', lease_id: ID, state: 'provisioning' }],
    [`lease:state=active,id=${ID}`, { type: 'lease', lease_id: ID, state: 'active' }],
    [`lease:${ID},state=reaped`, { type: 'lease', lease_id: ID, state: 'reaped' }],
    ['timer:5m', { type: 'timer', at: NOW + 300_000 }],
    ['timer:in=90', { type: 'timer', at: NOW + 90_000 }],
    ['timer:in=1.5s', { type: 'timer', at: NOW + 1_500 }],
    ['timer:at=2031-05-06T07:08:10Z', { type: 'timer', at: NOW + 1_000 }],
    ['timer:at=2031-05-06T09:08:10+02:00', { type: 'timer', at: NOW + 1_000 }],
  ];
  for (const [text, condition] of rows) {
    test(`${text} is understood`, () => expect(parsed(text)).toEqual(condition));
    test(`${text} survives its canonical spelling`, () => {
      expect(parsed(formatCondition(parsed(text)))).toEqual(condition);
    });
  }
});

describe('a lease id', () => {
  const spellings = [
    ID,
    ID.toUpperCase(),
    ID.replaceAll('-', ''),
    `{${ID}}`,
    `{${ID.replaceAll('-', '').toUpperCase()}}`,
    '0a1b-2c3d-4e5f-4a6b-8c7d-0123-4567-89ab',
  ];
  for (const spelling of spellings) {
    test(`is taken as ${spelling}`, () => {
      expect(canonicalUuid(spelling)).toBe(ID);
      expect(parsed(`lease:id=${spelling}`)).toMatchObject({ lease_id: ID });
    });
  }
  const others = [
    '',
    ID.slice(1),
    `${ID}0`,
    `{${ID}`,
    `${ID}}`,
    ID.replace('a', 'g'),
    `-${ID}`,
    `${ID}-`,
    '0a1-b2c3d4e5f4a6b8c7d0123456789ab',
    ` ${ID}`,
  ];
  for (const other of others) {
    test(`is not taken as '${other}'`, () => expect(canonicalUuid(other)).toBeNull());
  }
});

describe('a mistake in a condition', () => {
  const rows: readonly [string, string, string, string | null][] = [
    ['no colon', 'lease', 'lease', 'lease:id=UUID'],
    ['an unknown type', 'lese:id=x', 'lese', 'lease'],
    ['a type in capitals', 'TIMER:5m', 'TIMER', 'timer'],
    ['a type from the prototype', 'constructor:x', 'constructor', null],
    ['an unknown key', `lease:id=${ID},stat=active`, 'stat', 'state'],
    ['a key given twice', `lease:id=${ID},id=${ID}`, 'id', null],
    ['the first key given twice', `lease:${ID},id=${ID}`, 'id', null],
    ['a bare value that comes second', `lease:id=${ID},active`, 'active', null],
    ['no lease id', 'lease:state=active', '', null],
    ['no UUID', 'lease:id=12', '12', null],
    ['an empty id', 'lease:', '', null],
    ['a state that cannot be waited for', `lease:id=${ID},state=idle`, 'idle', null],
    ['a mistyped state', `lease:id=${ID},state=activ`, 'activ', 'active'],
    ['no duration', 'timer:in=soon', 'soon', null],
    ['a negative duration', 'timer:in=-5s', '-5s', null],
    ['no time', 'timer:at=noon', 'noon', null],
    ['a time that is not ISO', 'timer:at=5', '5', null],
    ['a date in words', 'timer:at=May 5 2031', 'May 5 2031', null],
    ['a month that there is not', 'timer:at=2031-13-01', '2031-13-01', null],
    ['two times', 'timer:in=5m,at=2031-01-01T00:00:00Z', '2031-01-01T00:00:00Z', null],
    ['an empty timer', 'timer:', '', null],
  ];
  for (const [name, text, token, nearest] of rows) {
    test(`${name} names the place, the token and the nearest valid word`, () => {
      const problem = problemOf(text);
      expect(text.slice(problem.position).startsWith(token)).toBe(true);
      expect(problem.message.length).toBeGreaterThan(10);
      expect(problem.nearest).toBe(nearest);
    });
  }
});

describe('the nearest word', () => {
  const rows: readonly [string, readonly string[], string | null][] = [
    ['leas', ['lease', 'timer'], 'lease'],
    ['l', ['lease', 'timer'], 'lease'],
    ['t', ['lease', 'timer'], 'timer'],
    ['tmier', ['lease', 'timer'], 'timer'],
    ['wonderful', ['lease', 'timer'], null],
    ['', ['lease'], null],
    ['provisionning', ['provisioning', 'active', 'reaped'], 'provisioning'],
    ['id', ['in', 'at'], 'in'],
  ];
  for (const [typed, known, nearest] of rows) {
    test(`to '${typed}' is ${nearest}`, () => expect(nearestOf(typed, known)).toBe(nearest));
  }
});

describe('the types of conditions', () => {
  for (const [type, { keys, defaultKey, sentence }] of Object.entries(CONDITION_TYPES)) {
    test(`${type} has its default key among its keys and a sentence`, () => {
      expect(keys).toContain(defaultKey);
      expect(sentence.startsWith(`${type}:`)).toBe(true);
    });
  }
});
