import { type DestinationStream, type Logger, type LoggerOptions, pino } from "pino";
import { inSources } from "./source-places.ts";

export type { DestinationStream, Logger };

/** A second defence, also one level below: callers choose what they log. */
const REDACTED = [
  "password",
  "newPassword",
  "currentPassword",
  "token",
  "accessToken",
  "refreshToken",
  "tempToken",
  "stepUpToken",
  "codeVerifier",
  "secret",
  "authorization",
  "cookie",
];
/** One level below, `code` is an error code. */
const REDACTED_AT_TOP = ["code"];

const BUFFERED_BYTES = 32_768;
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
const FLUSH_EVERY_MS = 100;
const BYTES = { contentMode: "buffer" };

export function createLogger(name: string, level: string, destination?: DestinationStream): Logger {
  const options: LoggerOptions = {
    name,
    level,
    timestamp: createTimestamp(),
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: [...REDACTED_AT_TOP, ...REDACTED.flatMap((field) => [field, `*.${field}`])],
      censor: "[redacted]",
    },
    serializers: { err: describeError, error: describeError },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** Drops lines when the reader stalls, to bound memory. */
export function bufferedOutput(): DestinationStream {
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: BUFFERED_BYTES,
    maxWrite: 2 * BUFFERED_BYTES,
    maxLength: MAX_WAITING_BYTES,
    // pino would measure all buffered text for each added line.
    ...BYTES,
  });
  const bytes = output as unknown as { write(line: Buffer): boolean; _len: number };
  let isDue = false;
  // pino's own periodic flush would also write when nothing is buffered.
  const flushLater = () => {
    if (isDue) return;
    isDue = true;
    setTimeout(() => {
      isDue = false;
      if (bytes._len === 0) return;
      output.flush();
      // One flush writes a part, and nothing during another write.
      flushLater();
    }, FLUSH_EVERY_MS).unref();
  };
  return Object.assign(
    {
      write(line: string) {
        bytes.write(Buffer.from(line));
        flushLater();
      },
    },
    { flush: (done?: (error?: Error) => void) => output.flush(done), flushSync: () => output.flushSync() },
  );
}

/** Many lines share a millisecond. */
function createTimestamp(): () => string {
  let lastMs = Number.NaN;
  let text = "";
  return () => {
    const nowMs = Date.now();
    if (nowMs !== lastMs) {
      lastMs = nowMs;
      text = `,"time":"${new Date(nowMs).toISOString()}"`;
    }
    return text;
  };
}

/** Copies safe properties only: libraries attach query parameters and requests. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  return {
    type: error.name,
    message: error.message,
    code: (error as { code?: unknown }).code,
    stack: error.stack && inSources(error.stack),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}

/** Bounds log lines that clients can cause. */
export function atMost<A extends unknown[]>(
  times: number,
  periodMs: number,
  act: (...args: A) => void,
  nowMs: () => number = () => performance.now(),
): (...args: A) => void {
  let periodEndMs = Number.NEGATIVE_INFINITY;
  let left = 0;
  return (...args) => {
    const now = nowMs();
    if (now >= periodEndMs) {
      periodEndMs = now + periodMs;
      left = times;
    }
    if (left === 0) return;
    left -= 1;
    act(...args);
  };
}
