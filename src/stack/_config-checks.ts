/** What the schema of one section cannot see: names used in one section and declared in another. */
import type { StackConfigFile } from '../protocol/stack-config.ts';
import { nearestOf } from './_nearest.ts';
import { templateNames, unknownNameIn } from './_template.ts';
import { isReservedPortName, isScrubbedVariable, portVariable } from './variables.ts';

export interface ConfigProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
  readonly nearest?: string | null;
}

type Stack = StackConfigFile['stack'];
type Text = { readonly path: readonly (string | number)[]; readonly text: string };

export function problemsBetweenSections(stack: Stack): ConfigProblem[] {
  return [...portProblems(stack), ...variableProblems(stack), ...readyProblems(stack), ...templateProblems(stack)];
}

function portProblems(stack: Stack): ConfigProblem[] {
  const seen = new Map<string, string>();
  const problems: ConfigProblem[] = [];
  for (const [index, name] of (stack.ports ?? []).entries()) {
    const variable = portVariable(name);
    const earlier = seen.get(variable);
    if (earlier !== undefined) {
      const message = `[stack] ports: "${name}" and "${earlier}" would both be ${variable}`;
      problems.push({ path: ['stack', 'ports', index], message });
    }
    if (isReservedPortName(name)) {
      problems.push({
        path: ['stack', 'ports', index],
        message: `[stack] ports: ${variable} is a setting of this program`,
      });
    }
    seen.set(variable, name);
  }
  return problems;
}

function variableProblems(stack: Stack): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  for (const [index, name] of (stack.pass_env ?? []).entries()) {
    const path = ['stack', 'pass_env', index];
    if (name.startsWith('BOTBUDDY_'))
      problems.push({ path, message: `[stack] pass_env: ${name} is built, never inherited` });
    if (isScrubbedVariable(name))
      problems.push({ path, message: `[stack] pass_env: ${name} changes how programs load code` });
  }
  for (const name of Object.keys(stack.env ?? {})) {
    if (!name.startsWith('BOTBUDDY_')) continue;
    problems.push({
      path: ['stack', 'env', name],
      message: `[stack.env] ${name}: names that begin with BOTBUDDY_ are taken`,
    });
  }
  return problems;
}

function readyProblems(stack: Stack): ConfigProblem[] {
  const ports = stack.ports ?? [];
  const problems: ConfigProblem[] = [];
  for (const [service, { ready }] of Object.entries(stack.service ?? {})) {
    const path = ['stack', 'service', service, 'ready'];
    if (ready?.tcp !== undefined && !ports.includes(ready.tcp)) {
      problems.push(unknownPort([...path, 'tcp'], ready.tcp, ports));
    }
    if (ready?.http !== undefined && !ports.includes(ready.http) && !ready.http.startsWith('http://')) {
      const nearest = nearestOf(ready.http, ports);
      const message = `[${path.join('.')}] http: an address that begins with http://, or the name of a port`;
      problems.push({ path: [...path, 'http'], message, nearest });
    }
  }
  return problems;
}

function unknownPort(path: (string | number)[], name: string, ports: readonly string[]): ConfigProblem {
  const nearest = nearestOf(name, ports);
  const hint = nearest === null ? '; [stack] ports names none' : `; the nearest known port is "${nearest}"`;
  return { path, message: `unknown port "${name}"${hint}`, nearest };
}

function templateProblems(stack: Stack): ConfigProblem[] {
  const known = templateNames(stack.ports ?? []);
  const problems: ConfigProblem[] = [];
  for (const { path, text } of templatesOf(stack)) {
    const name = unknownNameIn(text, known);
    if (name === null) continue;
    const nearest = nearestOf(name, known);
    const message = `unknown name {${name}}; the nearest known one is {${nearest}} (for the text itself write {{${name}}})`;
    problems.push({ path, message, nearest });
  }
  return problems;
}

function templatesOf(stack: Stack): Text[] {
  const texts: Text[] = [];
  const take = (path: readonly (string | number)[], value: unknown): void => {
    if (typeof value === 'string') texts.push({ path, text: value });
    else if (Array.isArray(value)) for (const [index, element] of value.entries()) take([...path, index], element);
  };
  take(['stack', 'setup'], stack.setup);
  for (const [name, service] of Object.entries(stack.service ?? {})) {
    const path = ['stack', 'service', name];
    take([...path, 'prepare'], service.prepare);
    take([...path, 'command'], service.command);
    take([...path, 'cwd'], service.cwd);
    take([...path, 'ready', 'http'], service.ready?.http);
    take([...path, 'ready', 'exec'], service.ready?.exec);
  }
  for (const [name, value] of Object.entries(stack.env ?? {})) take(['stack', 'env', name], value);
  return texts;
}
