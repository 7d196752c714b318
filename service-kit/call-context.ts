import { randomUUID } from "node:crypto";
import { v7 as uuidv7 } from "uuid";

/** Who a call is made for, from the verified access token. */
export interface Actor {
  userId: string;
  /** `USER`, `ADMIN` or `AUDITOR`. */
  role: string;
  sessionId: string;
}

/** What travels with a call through every service. Nothing in it was copied from a client unchecked. */
export interface CallContext {
  /** UUIDv7, made at the edge. */
  requestId: string;
  /** W3C Trace Context: `00-<trace id>-<span id>-<flags>`. */
  traceparent: string;
  /** Absent for anonymous calls and for a service's own work. */
  actor?: Actor;
  /** The operator or auditor who calls, from the certificate: `operator:ada`. Never on the wire. */
  person?: string;
  /** When the answer is useless, in milliseconds of `Date.now()`. */
  deadlineMs: number;
}

/** The whole call's budget from the edge. */
export const CALL_BUDGET_MS = 1_000;

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * A context for a call that begins here.
 *
 * @param requestId a new one if it is absent.
 * @param traceparent continued if it is well-formed (W3C Trace Context §3.2), else replaced.
 */
export function newCallContext(
  options: { requestId?: string; traceparent?: string | undefined; budgetMs?: number } = {},
): CallContext {
  return {
    requestId: options.requestId ?? uuidv7(),
    traceparent: continueTrace(options.traceparent),
    deadlineMs: Date.now() + (options.budgetMs ?? CALL_BUDGET_MS),
  };
}

/** The trace id of a context: 32 hexadecimal digits. */
export function traceIdOf(context: Pick<CallContext, "traceparent">): string {
  return context.traceparent.slice(3, 35);
}

export function isTraceparent(text: string): boolean {
  return TRACEPARENT.test(text);
}

/** 32 digits, of which four say that they are a random UUID's: Node has those at hand, random bytes cost a system call. */
function randomHex(): string {
  return randomUUID().replaceAll("-", "");
}

function continueTrace(traceparent: string | undefined): string {
  if (traceparent !== undefined && isTraceparent(traceparent)) return traceparent;
  return `00-${randomHex()}-${randomHex().slice(16)}-00`;
}
