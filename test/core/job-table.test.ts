import { describe, expect, test } from 'bun:test';
import { DEFERRABLE, JOB_ANSWER, type JobVerb } from '../../src/core/job-table.ts';
import { JOB_STATES, type JobKind, type JobState, type Lease } from '../../src/core/model.ts';
import { CONNECTION, HOST, Machine } from './machine.ts';

const ALLOWED: Record<JobState, readonly JobVerb[]> = {
  open: ['claim'],
  claimed: ['renew', 'complete', 'fail', 'defer'],
  waiting: [],
};
const VERBS: readonly JobVerb[] = ['claim', 'renew', 'complete', 'fail', 'defer'];

/** A provision job, open or claimed; a waiting one is a reap that failed once. */
function inState(state: JobState): { machine: Machine; lease: Lease; job_id: string; job_token: number } {
  const machine = new Machine();
  machine.host(1);
  const lease = state === 'waiting' ? machine.active('slot') : machine.request('slot');
  if (state === 'waiting') {
    machine.release(lease, 'reap');
    const claimed = machine.claim(lease);
    machine.ask('fail_job', { ...claimed, error: 'engine', error_class: 'engine', statement: null });
    return { machine, lease, ...claimed };
  }
  const job_id = machine.jobOf(lease).job_id;
  return state === 'open' ? { machine, lease, job_id, job_token: 0 } : { machine, lease, ...machine.claim(lease) };
}

function perform(verb: JobVerb, { machine, job_id, job_token }: ReturnType<typeof inState>) {
  const held = { job_id, job_token };
  switch (verb) {
    case 'claim':
      return machine.submit('claim_job', { job_id, host_id: HOST, incarnation: 'helper-1' });
    case 'renew':
      return machine.submit('renew_job', held);
    case 'complete':
      return machine.submit('complete_job', { ...held, connection: CONNECTION, reprovisioned: null, statement: null });
    case 'fail':
      return machine.submit('fail_job', { ...held, error: 'no', error_class: 'no', statement: null });
    case 'defer':
      return machine.submit('defer_job', { ...held, reason: 'draining', statement: null });
  }
}

describe('what a Helper may do with a job', () => {
  for (const state of JOB_STATES) {
    for (const verb of VERBS) {
      const allowed = ALLOWED[state].includes(verb);
      test(`${verb} of a job that is ${state} is ${allowed ? 'allowed' : 'refused'}`, () => {
        expect(JOB_ANSWER[state][verb] === 'allowed').toBe(allowed);
        const scene = inState(state);
        expect(scene.machine.state.jobs.get(scene.job_id)?.state).toBe(state);
        const answer = perform(verb, scene);
        expect(answer.ok).toBe(allowed);
        if (!answer.ok) expect(answer.refusal.code).toBe(verb === 'claim' ? 'JOB_NOT_OPEN' : 'JOB_CLAIM_LOST');
      });
    }
  }

  for (const verb of VERBS) {
    test(`${verb} of a job that is finished is refused`, () => {
      const scene = inState('claimed');
      perform('complete', scene);
      const answer = perform(verb, scene);
      expect(answer.ok).toBe(false);
      if (!answer.ok) expect(answer.refusal.code).toBe('JOB_CLAIM_LOST');
    });
  }

  const KINDS: Record<JobKind, boolean> = { provision_stack: true, readopt_stack: true, reap_stack: false };
  for (const [kind, deferrable] of Object.entries(KINDS)) {
    test(`a ${kind} job can ${deferrable ? '' : 'never '}be deferred`, () => {
      expect(DEFERRABLE[kind as JobKind]).toBe(deferrable);
    });
  }
});
