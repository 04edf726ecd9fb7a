/** Every bound of the machines, in one place. Durations in milliseconds. */
export const BOUNDS = {
  reapAttemptsMax: 3,
  reapBackoffMs: 5_000,
  reapDeadlineMs: 900_000,
  detachedProvisionMs: 3_600_000,
  jobClaimTtlMs: 45_000,
  waitAbandonedAfterMs: 180_000,
  conditionsPerWaitMax: 16,
  blocksPerLeaseMax: 16,
  waitsPerPrincipalMax: 20_000,
  queuedPerHostMax: 10_000,
  unitsMax: 1_024,
  priorityMax: 100,
  ageingStepMs: 300_000,
  labelsMax: 16,
  labelLengthMax: 256,
} as const;
