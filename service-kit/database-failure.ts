import { DomainError } from "./errors.ts";
import { withinDeadline } from "./within-deadline.ts";

/** SQLSTATE classes, and codes of the pool, the driver and the system, that say "not now" rather than "wrong". */
const UNAVAILABLE =
  /^(08...|28000|28P01|3D000|53...|57P0.|57014|55P03|40001|40P01|25006|CONNECTION_.*|CONNECT_TIMEOUT|E(CONNREFUSED|CONNRESET|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN))$/;

/**
 * Waits for work of the database, and gives its failures the name that callers handle.
 *
 * @param timeoutMs how long the work may take. No limit if undefined.
 * @throws {DomainError} `service_unavailable` if the database is away, overloaded, or silent for `timeoutMs`; every
 *   other error unchanged.
 */
export async function nameFailures<T>(work: Promise<T>, timeoutMs: number | undefined): Promise<T> {
  try {
    return await (timeoutMs === undefined ? work : withinDeadline(work, timeoutMs));
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    throw new DomainError("service_unavailable", undefined, { cause: error, retryAfterMs: 1_000 });
  }
}

function isUnavailable(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && UNAVAILABLE.test(code);
}

/** The failure behind a `service_unavailable` of the database; undefined for every other error. */
export function causeOfUnavailable(error: unknown): Error | undefined {
  if (!(error instanceof DomainError) || error.code !== "service_unavailable") return undefined;
  return error.cause instanceof Error ? error.cause : undefined;
}
