import { type DestinationStream, type Logger, type LoggerOptions, pino } from "pino";

export type { Logger };

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

/**
 * The process's logger: JSON lines on standard output, UTC, one object an event.
 *
 * @param name the process: `gateway`, `token-service`, ….
 */
export function createLogger(name: string, level: string, destination?: DestinationStream): Logger {
  const options: LoggerOptions = {
    name,
    level,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: [...REDACTED_AT_TOP, ...REDACTED.flatMap((field) => [field, `*.${field}`])],
      censor: "[redacted]",
    },
    serializers: { err: describeError, error: describeError },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
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
