/** The one table of tools: a name of the wire without its entry here does not compile. */
import type { ToolTable } from './tool.ts';
import { getHostLedger, hostBeacon, listHosts, registerHost } from './tools/host-tools.ts';
import { claimJob, completeJob, deferJob, failJob, renewJob, reportStackLost } from './tools/job-tools.ts';
import {
  getStackLease,
  listStackLeases,
  releaseStackLease,
  requestStackLease,
  touchStackLease,
} from './tools/lease-tools.ts';
import { coordinatorStatus, reportOutcome } from './tools/status-tools.ts';
import { cancelWait, getWait, wait } from './tools/wait-tools.ts';

export const TOOLS: ToolTable = {
  cancel_wait: cancelWait,
  claim_job: claimJob,
  complete_job: completeJob,
  coordinator_status: coordinatorStatus,
  defer_job: deferJob,
  fail_job: failJob,
  get_host_ledger: getHostLedger,
  get_stack_lease: getStackLease,
  get_wait: getWait,
  host_beacon: hostBeacon,
  list_hosts: listHosts,
  list_stack_leases: listStackLeases,
  register_host: registerHost,
  release_stack_lease: releaseStackLease,
  renew_job: renewJob,
  report_outcome: reportOutcome,
  report_stack_lost: reportStackLost,
  request_stack_lease: requestStackLease,
  touch_stack_lease: touchStackLease,
  wait,
};
