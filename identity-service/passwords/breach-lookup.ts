import { createHash } from "node:crypto";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";

export interface BreachLookup {
  /** False also if unknown. Never throws. */
  isBreached(password: string): Promise<boolean>;
}

export interface BreachLookupOptions {
  /** Such as `https://api.pwnedpasswords.com/range/`. */
  url: string;
  logger: Logger;
  metrics: Metrics;
  timeoutMs?: number;
}

/** As the lists of Have I Been Pwned have it. */
export function sha1Of(password: string): Buffer {
  return createHash("sha1").update(password.normalize("NFC")).digest();
}

/** Half of `CALL_BUDGET_MS`, so that a slow lookup fails no registration. */
const TIMEOUT_MS = 500;
const PREFIX_LENGTH = 5;
/** Up to 1,000 padded lines of 45 bytes. */
const MAX_BYTES = 256 * 1024;

/**
 * Sends 20 bits of the SHA-1. After a failure, the password passes.
 * @see https://haveibeenpwned.com/API/v3#SearchingPwnedPasswordsByRange
 */
export function createBreachLookup(options: BreachLookupOptions): BreachLookup {
  const { url, logger, metrics, timeoutMs = TIMEOUT_MS } = options;
  const lookups = metrics.counter("gatehouse_breach_lookups_total", "Breach look-ups of new passwords.", [
    "outcome",
  ]);
  return {
    async isBreached(password) {
      const digest = sha1Of(password).toString("hex").toUpperCase();
      try {
        const range = await fetchRange(url + digest.slice(0, PREFIX_LENGTH), timeoutMs);
        const isBreached = hasSuffix(range, digest.slice(PREFIX_LENGTH));
        lookups.inc({ outcome: isBreached ? "breached" : "clean" });
        return isBreached;
      } catch (error) {
        lookups.inc({ outcome: "failed" });
        logger.warn({ err: error }, "breach look-up failed; the password is accepted");
        return false;
      }
    },
  };
}

/** @throws {Error} without a complete answer in time. */
async function fetchRange(url: string, timeoutMs: number): Promise<string> {
  const response = await fetch(url, {
    headers: { "add-padding": "true", "user-agent": "gatehouse" },
    redirect: "error",
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (!response.ok || response.body === null) {
    await response.body?.cancel();
    throw new Error(`the look-up answered ${response.status}`);
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new Error("the look-up's answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("latin1");
}

/** `SUFFIX:COUNT`. Padding has the count 0. */
function hasSuffix(range: string, suffix: string): boolean {
  return range.split(/\r?\n/).some((line) => {
    const [found, count] = line.split(":");
    return found?.toUpperCase() === suffix && Number(count) > 0;
  });
}
