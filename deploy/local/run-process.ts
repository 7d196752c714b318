import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, renameSync } from "node:fs";
import { errorText } from "./launch-error.ts";
import { lastLines, reasonIn } from "./log-file.ts";

const LINES_SHOWN = 20;

export interface Program extends Pick<SpawnOptions, "cwd" | "env" | "uid" | "gid"> {
  name: string;
  command: string;
  args: readonly string[];
  /** The previous log is kept as `<path>.1`. */
  logFile: string;
  /** File descriptor 3. It closes when the launcher ends. */
  channel: "ipc" | "pipe";
}

export interface RunningProcess {
  child: ChildProcess;
  /** 0 if it could not be started. */
  pid: number;
  /** Resolves with the end of the log and the reason in the last line. Never rejects. */
  ended: Promise<string>;
}

/** In its own session, so that Ctrl-C reaches only the launcher, which stops processes in order. */
export function runProcess({ name, command, args, logFile, channel, ...options }: Program): RunningProcess {
  if (existsSync(logFile)) renameSync(logFile, `${logFile}.1`);
  // The log continues after the launcher was killed.
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
