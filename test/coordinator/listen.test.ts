import { describe, expect, test } from 'bun:test';
import { parseAddress } from '../../src/coordinator/listen.ts';

describe('addresses to listen on', () => {
  test.each([
    ['127.0.0.1:0', { hostname: '127.0.0.1', port: 0 }],
    ['localhost:8080', { hostname: 'localhost', port: 8080 }],
    ['[::1]:8080', { hostname: '::1', port: 8080 }],
  ])('%s is loopback', (address, expected) => {
    expect(parseAddress(address)).toEqual(expected);
  });

  test.each(['0.0.0.0:80', '[::]:80', 'example.com:80', '127.0.0.1', '127.0.0.1:99999', ':80', '::1:80', ''])(
    '%p is refused',
    (address) => {
      expect(() => parseAddress(address)).toThrow(expect.objectContaining({ code: 'setting_invalid' }));
    },
  );
});
