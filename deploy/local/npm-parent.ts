import { readFileSync } from "node:fs";

const POLL_MS = 250;

/**
 * Calls back once when the npm that runs this process is gone: killed with -9, or its shell ended by a signal, it
 * cannot pass anything on, and this process would go on unseen with nobody to stop it. Does nothing without npm: then
 * a parent that ends (a script which starts Gatehouse in the background) means nothing.
 */
export function onNpmGone(environment: NodeJS.ProcessEnv, callback: () => void): void {
  if (environment.npm_lifecycle_event === undefined) return;
  const before = ancestors();
  const timer = setInterval(() => {
    if (ancestors() === before) return;
    clearInterval(timer);
    callback();
  }, POLL_MS);
  timer.unref();
}

/** The parent, which is npm's shell or npm itself, and, where /proc tells, the parent of that. */
function ancestors(): string {
  return `${process.ppid} ${parentOf(process.ppid)}`;
}

function parentOf(pid: number): string | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, "utf8");
    return status.slice(status.lastIndexOf(")") + 2).split(" ")[1];
  } catch {
    return undefined;
  }
}
