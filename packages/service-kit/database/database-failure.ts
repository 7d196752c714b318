import { withinDeadline } from "../values/call-deadline.ts";
import { DomainError } from "../values/errors.ts";
import { isOfTypeQuery } from "./postgres-js-internals.ts";

/** SQLSTATE classes, and codes of the pool, the driver and the system. */
const UNAVAILABLE =
  /^(08...|28000|28P01|3D000|53...|57P0.|57014|55P03|40001|40P01|25006|CONNECTION_.*|CONNECT_TIMEOUT|E(CONNREFUSED|CONNRESET|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN))$/;

/** Temporary failures become {DomainError} `service_unavailable`. */
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

export function causeOfUnavailable(error: unknown): Error | undefined {
  if (!(error instanceof DomainError) || error.code !== "service_unavailable") return undefined;
  return error.cause instanceof Error ? error.cause : undefined;
}

/** Left unhandled by the driver. The statement that opened the connection also fails. */
export function isLostTypeQuery(error: unknown): boolean {
  return isUnavailable(error) && isOfTypeQuery(error);
}
