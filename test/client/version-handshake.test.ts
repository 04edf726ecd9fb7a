import { expect, test } from 'bun:test';
import { agreementOf } from '../../src/client/version-handshake.ts';

test.each([
  ['0.1.0', '0.1.7', 'compatible'],
  ['0.1.0', '0.2.0', 'client_is_older'],
  ['0.10.0', '0.9.0', 'coordinator_is_older'],
  ['1.2.0', '1.9.3', 'compatible'],
  ['1.2.0', '2.0.0', 'client_is_older'],
  ['2.0.0-rc.1', '1.9.9', 'coordinator_is_older'],
  ['0.0.0', '7.0.0', 'compatible'],
  ['0.1.0', 'something', 'coordinator_is_older'],
])('a client %s and a coordinator %s are %s', (client, coordinator, agreement) => {
  expect(agreementOf(client, coordinator)).toBe(agreement as never);
});
