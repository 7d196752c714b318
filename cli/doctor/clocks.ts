import { type Finding, failed, ok, warning } from "./finding.ts";

/** As the alert GatehouseClockSkew, and as a process that refuses calls. */
const NOTABLE_MS = 500;
const TOO_MUCH_MS = 2_000;
const ACTION =
  "Set the time service (NTP) of the host that is wrong right: docs/operations/runbooks/GatehouseClockSkew.md";

/** What a clock can be ahead by, in milliseconds: it was read in between. */
export interface Offset {
  leastMs: number;
  mostMs: number;
}

export interface ClockReading {
  /** What the other clock says. */
  readMs: number;
  /** 1,000 for a clock with a resolution of a second. */
  resolutionMs: number;
  sentMs: number;
  receivedMs: number;
}

export function offsetOf({ readMs, resolutionMs, sentMs, receivedMs }: ClockReading): Offset {
  return { leastMs: readMs - receivedMs, mostMs: readMs + resolutionMs - sentMs };
}

/** @param than whose clock it is compared with. */
export function clockFinding(subject: string, than: string, { leastMs, mostMs }: Offset): Finding {
  // The smallest distance that explains what was read.
  const certainMs = leastMs > 0 ? leastMs : Math.min(mostMs, 0);
  const size = Math.abs(certainMs);
  if (size < NOTABLE_MS) {
    const boundMs = Math.max(Math.abs(leastMs), Math.abs(mostMs));
    return ok("clock", subject, `within ${inSeconds(boundMs)} s of ${than}`);
  }
  const found = `at least ${inSeconds(size)} s ${certainMs > 0 ? "ahead of" : "behind"} ${than}`;
  return size < TOO_MUCH_MS
    ? warning("clock", subject, found, ACTION)
    : failed("clock", subject, found, ACTION);
}

const inSeconds = (ms: number) => (Math.ceil(ms / 100) / 10).toFixed(1);
