/**
 * `{name}` in the texts of a stack. `{{name}}` is the text `{name}`; other braces mean themselves, so that JSON and
 * `find -exec {}` pass through.
 */
const PLACEHOLDER = /\{\{([A-Za-z_][\w.-]*)\}\}|\{([A-Za-z_][\w.-]*)\}/g;

export interface TemplateValues {
  readonly dir: string;
  readonly host: string;
  readonly project: string;
  readonly lease: string;
  readonly ports: Readonly<Record<string, number>>;
}

/** The names that a template of this stack may use. */
export function templateNames(ports: readonly string[]): string[] {
  return ['dir', 'host', 'project', 'lease', ...ports.map((port) => `port.${port}`)];
}

/** The first name that is not known, or null. */
export function unknownNameIn(template: string, known: readonly string[]): string | null {
  for (const [, , name] of template.matchAll(PLACEHOLDER)) {
    if (name !== undefined && !known.includes(name)) return name;
  }
  return null;
}

export function renderTemplate(template: string, values: TemplateValues): string {
  return template.replace(PLACEHOLDER, (whole, escaped: string | undefined, name: string | undefined) => {
    if (escaped !== undefined) return `{${escaped}}`;
    const value = name === undefined ? undefined : valueNamed(name, values);
    return value ?? whole;
  });
}

function valueNamed(name: string, values: TemplateValues): string | undefined {
  if (name.startsWith('port.')) return values.ports[name.slice('port.'.length)]?.toString();
  if (name === 'dir' || name === 'host' || name === 'project' || name === 'lease') return values[name];
  return undefined;
}
