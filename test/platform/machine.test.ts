import { expect, test } from 'bun:test';
import { bootId, coreCount, defaultUnits, hostKey, machineId, memoryGiB } from '../../src/platform/machine.ts';
import { importing, runScript } from './run-script.ts';

test('two processes read the same boot id, machine id and host key', async () => {
  const script = `${importing('bootId, machineId, hostKey', 'machine.ts')}
    console.log(JSON.stringify([bootId(), machineId(), hostKey()]));`;
  expect(JSON.parse((await runScript(script)).stdout)).toEqual([bootId(), machineId(), hostKey()]);
  expect(bootId()).toMatch(/^[0-9a-f-]{36}$/);
});

test('the host key is a trimmed lower-case name', () => {
  expect(hostKey()).toMatch(/^\S+$/);
  expect(hostKey()).toBe(hostKey().toLowerCase());
});

test('memory and cores are positive', () => {
  expect(memoryGiB()).toBeGreaterThan(0);
  expect(coreCount()).toBeGreaterThanOrEqual(1);
});

test.each([
  [2, 8, 2],
  [8, 8, 3],
  [8, 64, 8],
  [1, 64, 1],
  [16, 1, 1],
  [4, 3.9, 1],
])('%i cores and %d GiB make %i units', (cores, memory, units) => {
  expect(defaultUnits(cores, memory)).toBe(units);
});
