/**
 * What a stack hands to whoever uses it: addresses for the log and the receipt, variables for the child. Variables are
 * built from the plan where the child runs; those that are claimed by a stack are never inherited.
 */
import { resolve } from 'node:path';
import { readTextIfPresent, writeFileDurable } from '../platform/durable-files.ts';
import { type Connection, type ConnectionFile, connectionFileSchema } from '../protocol/connection.ts';
import type { PlannedService, StackPlan } from '../protocol/stack-plan.ts';
import { renderTemplate, type TemplateValues } from './_template.ts';
import { jsonOf } from './claim-files.ts';
import { slotPaths } from './slot.ts';
import { isNeverInherited, portVariable, REAP_MARK } from './variables.ts';

export type Variables = Readonly<Record<string, string>>;

export function templateValues(plan: StackPlan, leaseId: string): TemplateValues {
  return { dir: plan.data_dir, host: plan.host, project: plan.project, lease: leaseId, ports: plan.ports };
}

/** Addresses only: a URL's user, password, path and query stay behind. */
export function connectionOf(plan: StackPlan, leaseId: string): Connection {
  const values = templateValues(plan, leaseId);
  const urls: Record<string, string> = {};
  for (const { name, ready } of plan.services) {
    if (ready?.kind !== 'http') continue;
    const url = URL.parse(renderTemplate(ready.url, values));
    if (url !== null) urls[name] = url.origin;
  }
  return { host: plan.host, ports: { ...plan.ports }, urls };
}

/** `[stack.env]` and what every child of a stack is told. The connection file is left out where there is none. */
export function stackVariables(plan: StackPlan, leaseId: string, connectionFile: string | null): Variables {
  const values = templateValues(plan, leaseId);
  const variables: Record<string, string> = {};
  for (const [name, template] of Object.entries(plan.env)) variables[name] = renderTemplate(template, values);
  for (const [name, port] of Object.entries(plan.ports)) variables[portVariable(name)] = String(port);
  variables['BOTBUDDY_LEASE_ID'] = leaseId;
  variables['BOTBUDDY_STACK_PROJECT'] = plan.project;
  if (connectionFile !== null) variables['BOTBUDDY_CONNECTION_FILE'] = connectionFile;
  return variables;
}

/** The environment of `stack run`'s child: the caller's, without what only a stack may say, and the stack's variables. */
export function childEnvironment(inherited: Variables, built: Variables, leaseId: string): Record<string, string> {
  const kept = Object.entries(inherited).filter(([name]) => !isNeverInherited(name));
  return { ...Object.fromEntries(kept), ...built, [REAP_MARK]: leaseId };
}

/** The environment of a service, a prepare or a setup command: exactly this. */
export function serviceEnvironment(passed: Variables, built: Variables, leaseId: string): Record<string, string> {
  return { ...passed, ...built, [REAP_MARK]: leaseId };
}

/** Lines that a POSIX shell evaluates to exactly these values. */
export function exportLines(variables: Variables): string {
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'\n`)
    .join('');
}

export interface RenderedService {
  readonly prepare: readonly (readonly string[])[];
  readonly command: readonly string[];
  readonly cwd: string;
}

export function renderService(plan: StackPlan, service: PlannedService, leaseId: string): RenderedService {
  const values = templateValues(plan, leaseId);
  const render = (argv: readonly string[]) => argv.map((text) => renderTemplate(text, values));
  return {
    prepare: service.prepare.map(render),
    command: render(service.command),
    cwd: resolve(plan.worktree_root, renderTemplate(service.cwd, values)),
  };
}

export function connectionFileOf(plan: StackPlan, leaseId: string): ConnectionFile {
  return { schema_version: 1, lease_id: leaseId, project: plan.project, ...connectionOf(plan, leaseId) };
}

/** 0600, complete or absent. */
export function writeConnectionFile(path: string, file: ConnectionFile): void {
  writeFileDurable(path, `${JSON.stringify(file)}\n`);
}

/** The slot's own connection file, if it is there and holds for this lease. */
export function readConnectionFile(slotDir: string, leaseId: string): ConnectionFile | null {
  const text = readTextIfPresent(slotPaths(slotDir).connection);
  const parsed = text === null ? null : connectionFileSchema.safeParse(jsonOf(text));
  return parsed?.success && parsed.data.lease_id === leaseId ? parsed.data : null;
}
