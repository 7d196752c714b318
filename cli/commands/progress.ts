import { statSync } from "node:fs";
import type { CommandInput, Terminal } from "../command.ts";

const ON_TERMINAL_EVERY_MS = 250;
const LINE_EVERY_MS = 10_000;
/** The rate is an average in which work of this age counts by a third. */
const RATE_AGE_MS = 10_000;
const MAX_LEFT_S = 360_000;
const SHORT = {
  maximumSignificantDigits: 3,
  maximumFractionDigits: 2,
  roundingPriority: "lessPrecision",
} as const;
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

export const QUIET_OPTION = { quiet: { type: "boolean", description: "print no progress" } } as const;

/** Ends at the end of its block: `using progress = …`. */
export interface Progress extends Disposable {
  /** @param total 0 while unknown. */
  show(done: number, total: number): void;
  /** Estimates the total. @param size of the file in bytes, 0 if unknown. */
  showOfFile(done: number, bytesRead: number, size: number): void;
}

/**
 * On a terminal one line that is updated and removed at the end; elsewhere a line every ten seconds, but none with
 * --json, for which standard error is JSON: `1,200 of about 5,000 users (24 %), 98.7/s, 0:39 left`.
 * @param what is counted, in the plural.
 */
export function createProgress(
  { writeError, columns }: Pick<Terminal, "writeError" | "columns">,
  flags: CommandInput["flags"],
  what: string,
  nowMs: () => number = () => performance.now(),
): Progress {
  const isTerminal = columns() !== undefined;
  const everyMs = isTerminal ? ON_TERMINAL_EVERY_MS : LINE_EVERY_MS;
  let isOver = flags.has("quiet") || (flags.has("json") && !isTerminal);
  let isShown = false;
  let last: { ms: number; done: number } | undefined;
  const recent = { ms: 0, done: 0 };
  let estimate = { bytesRead: 0, total: 0 };

  function show(done: number, total: number, about = ""): void {
    const now = nowMs();
    last ??= { ms: now, done };
    const ms = now - last.ms;
    if (isOver || ms < everyMs) return;
    const weight = Math.exp(-ms / RATE_AGE_MS);
    recent.ms = recent.ms * weight + ms;
    recent.done = recent.done * weight + done - last.done;
    last = { ms: now, done };
    const perSecond = (recent.done * 1_000) / recent.ms;
    const isKnown = total >= done && total > 0;
    const share = isKnown ? ` (${Math.floor((done * 100) / total)} %)` : "";
    const text = [
      `${inEnglish(done)}${isKnown ? ` of ${about}${inEnglish(total)}` : ""} ${what}${share}`,
      `${perSecond.toLocaleString("en", SHORT)}/s`,
      ...(isKnown ? timeLeft((total - done) / perSecond) : []),
    ].join(", ");
    isShown = isTerminal;
    // A full last column would begin another line.
    writeError(isTerminal ? `\r\x1b[K${text.slice(0, (columns() ?? 0) - 1)}` : `${text}\n`);
  }
  function end(): void {
    for (const signal of SIGNALS) process.removeListener(signal, leave);
    if (isShown) writeError("\r\x1b[K");
    [isOver, isShown] = [true, false];
  }
  /** The signal ends the process, unless the command handles it. */
  function leave(signal: NodeJS.Signals): void {
    end();
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  }
  if (isTerminal && !isOver) for (const signal of SIGNALS) process.on(signal, leave);
  return {
    show: (done, total) => show(done, total),
    showOfFile(done, bytesRead, size) {
      // Between two reads `done` alone grows.
      if (bytesRead > estimate.bytesRead)
        estimate = { bytesRead, total: size === 0 ? 0 : Math.ceil((done * size) / bytesRead) };
      show(done, estimate.total, "about ");
    },
    [Symbol.dispose]: end,
  };
}

/** In bytes; 0 for a pipe, and for what cannot be read, which reading it reports. */
export function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

/** `3:07 left`. */
function timeLeft(exact: number): string[] {
  if (!(exact < MAX_LEFT_S)) return [];
  const seconds = Math.round(exact);
  const [h, m, s] = [seconds / 3_600, (seconds / 60) % 60, seconds % 60].map((part) => `${Math.floor(part)}`);
  const parts = h === "0" ? [m, s] : [h, m, s];
  return [`${parts.map((part, index) => (index === 0 ? part : part?.padStart(2, "0"))).join(":")} left`];
}

function inEnglish(count: number): string {
  return count.toLocaleString("en");
}
