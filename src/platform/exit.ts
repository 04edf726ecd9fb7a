/** The code with which this process ends once nothing is left to do; output is flushed first. */
export function setExitCode(code: number): void {
  process.exitCode = code;
}

/** Ends this process now. Only for the program's last line and for services: unsent output is lost. */
export function exitNow(code: number): never {
  process.exit(code);
}
