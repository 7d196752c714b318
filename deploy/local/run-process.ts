import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, renameSync } from "node:fs";
import { errorText } from "./launch-error.ts";
import { lastLines, reasonIn } from "./log-file.ts";

const LINES_SHOWN = 20;

/** What to run. */
export interface Program extends Pick<SpawnOptions, "cwd" | "env" | "uid" | "gid"> {
  name: string;
  command: string;
  args: readonly string[];
  /** Begun anew; the one before is kept as `<path>.1`. */
  logFile: string;
  /** File descriptor 3. Its end tells the process that the launcher is gone. */
  channel: "ipc" | "pipe";
}

/** A process which runs, or has run. */
export interface RunningProcess {
  child: ChildProcess;
  /** 0 if it could not be started. */
  pid: number;
  /** Resolves when it has ended, with the end of its log and, in the last line, how and why. Never rejects. */
  ended: Promise<string>;
}

/**
 * Starts a process with its output in a log file. It has a session of its own, so that a Ctrl-C in the terminal reaches
 * only the launcher, which then stops it in order.
 */
export function runProcess({ name, command, args, logFile, channel, ...options }: Program): RunningProcess {
  if (existsSync(logFile)) renameSync(logFile, `${logFile}.1`);
  // Straight into the file: the log goes on when the launcher has been killed, and costs it nothing.
  const log = openSync(logFile, "a", 0o600);
  const child = spawn(command, args, { ...options, stdio: ["ignore", log, log, channel], detached: true });
  closeSync(log);
  const ended = howItEnded(child).then(async (how) => {
    const lines = await lastLines(logFile, LINES_SHOWN);
    const reason = reasonIn(lines);
    const verdict = `${name} ended (${how})${reason === undefined ? "" : `: ${reason}`}`;
    return [`The end of ${logFile}:`, ...lines, "", verdict].join("\n");
  });
  return { child, pid: child.pid ?? 0, ended };
}

async function howItEnded(child: ChildProcess): Promise<string> {
  try {
    const [code, signal] = await once(child, "exit");
    return signal ? `signal ${signal}` : `exit code ${code}`;
  } catch (error) {
    return `it could not be started: ${errorText(error)}`;
  }
}
