/** Reads the report of a test run and says how it ended. Strict: what does not add up counts as no report. */
import { readFileSync } from 'node:fs';

export interface TestTotals {
  readonly passed: number;
  readonly failed: number;
  readonly skippedNames: readonly string[];
  readonly files: readonly string[];
}

export interface Verdict {
  readonly failed: boolean;
  readonly lines: readonly string[];
}

const CASE = /<testcase\b([^>]*?)(\/>|>([\s\S]*?)<\/testcase>)/g;
const TOP = /^<\?xml[^>]*\?>\s*<testsuites\b([^>]*)>[\s\S]*<\/testsuites>\s*$/;

export function readJunit(path: string): TestTotals | null {
  try {
    return parseJunit(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}

export function parseJunit(xml: string): TestTotals | null {
  const top = TOP.exec(xml)?.[1];
  if (top === undefined) return null;
  let passed = 0;
  let failed = 0;
  const skippedNames: string[] = [];
  const files = new Set<string>();
  for (const [, attributes = '', , body = ''] of xml.matchAll(CASE)) {
    const file = attribute(attributes, 'file');
    const group = attribute(attributes, 'classname');
    if (file !== '') files.add(file);
    if (/<(failure|error)\b/.test(body)) failed += 1;
    else if (/<skipped\b/.test(body))
      skippedNames.push([file, group, attribute(attributes, 'name')].filter(Boolean).join(' > '));
    else passed += 1;
  }
  const counted = { tests: passed + failed + skippedNames.length, failures: failed, skipped: skippedNames.length };
  const agrees = Object.entries(counted).every(([name, count]) => attribute(top, name) === String(count));
  return agrees ? { passed, failed, skippedNames, files: [...files] } : null;
}

/** The last line is for machines; what stands before it says why, where the numbers alone do not. */
export function verdict(
  totals: TestTotals,
  run: { exitCode: number; expectedFiles: readonly string[]; skippedFails: boolean },
): Verdict {
  const lines: string[] = [];
  let failed = totals.failed;
  for (const name of totals.skippedNames) lines.push(`skipped: ${name}`);
  for (const file of run.expectedFiles) {
    if (totals.files.includes(file)) continue;
    failed += 1;
    lines.push(`no result from ${file}`);
  }
  if (totals.passed + failed === 0) {
    failed += 1;
    lines.push('no test ran');
  }
  if (run.exitCode !== 0 && failed === 0) {
    failed += 1;
    lines.push(`the test run ended with ${run.exitCode} although no test failed`);
  }
  const skipped = totals.skippedNames.length;
  if (run.skippedFails && skipped > 0) lines.push('a skipped test is a failure here');
  const counts = [`${totals.passed} passed`, `${failed + (run.skippedFails ? skipped : 0)} failed`];
  if (skipped > 0 && !run.skippedFails) counts.push(`${skipped} skipped`);
  lines.push(counts.join(', '));
  return { failed: failed > 0 || (run.skippedFails && skipped > 0), lines };
}

function attribute(text: string, name: string): string {
  const raw = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(text)?.[1] ?? '';
  const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
  return raw.replace(/&(#(\d+)|[a-z]+);/g, (whole, name_: string, code: string | undefined) =>
    code === undefined ? (named[name_] ?? whole) : String.fromCodePoint(Number(code)),
  );
}
