import { type DestinationStream, type Logger, type LoggerOptions, pino } from "pino";

export type { DestinationStream, Logger };

/**
 * Field names whose values never reach a log, at the top level or one below. A second line of
 * defence: what is logged is chosen field by field at each call.
 */
const REDACTED = [
  "password",
  "newPassword",
  "currentPassword",
  "token",
  "accessToken",
  "refreshToken",
  "tempToken",
  "codeVerifier",
  "secret",
  "authorization",
  "cookie",
];
/** One-time codes, but not the code of an error one level below. */
const REDACTED_AT_TOP = ["code"];

const BUFFERED_BYTES = 32_768;
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
const FLUSH_EVERY_MS = 100;
const BYTES = { contentMode: "buffer" };

/**
 * The process's logger: JSON lines on standard output, UTC, one object an event.
 *
 * @param name the process: `gateway`, `token-service`, ….
 */
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

/**
 * Standard output for a process that logs a line a request: lines are written together, at most so late, and at once
 * when the process ends. What a reader that has stopped cannot take is dropped, so that it neither stops nor fills us.
 */
export function bufferedOutput(): DestinationStream {
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: BUFFERED_BYTES,
    maxWrite: 2 * BUFFERED_BYTES,
    maxLength: MAX_WAITING_BYTES,
    periodicFlush: FLUSH_EVERY_MS,
    // Text would be measured anew as a whole with each line that is added to it.
    ...BYTES,
  });
  // Its types know nothing of bytes.
  const bytes = output as unknown as { write(line: Buffer): boolean };
  return Object.assign(
    { write: (line: string) => void bytes.write(Buffer.from(line)) },
    { flush: (done?: (error?: Error) => void) => output.flush(done), flushSync: () => output.flushSync() },
  );
}

/** Many lines are of the same millisecond. */
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

/** An error with its causes, without the properties libraries hang on it (a query's parameters, a request). */
export function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  return {
    type: error.name,
    message: error.message,
    code: (error as { code?: unknown }).code,
    stack: error.stack,
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}
