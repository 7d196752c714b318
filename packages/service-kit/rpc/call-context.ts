import { randomBytes } from "node:crypto";
import { uuidv7 } from "#kit/values/uuid-v7.ts";

export interface Actor {
  userId: string;
  /** As in `access.yaml`. Empty for clients. */
  role: string;
  sessionId: string;
  /** Permissions that a client was granted. Absent for users. */
  scopes?: readonly string[] | undefined;
}

/** As the audit log names it. */
export function auditActorOf({ userId, role, sessionId, scopes }: Actor): Omit<Actor, "scopes"> {
  return { userId, role: scopes === undefined ? role : "CLIENT", sessionId };
}

/** Keys that a client has proven to hold (RFC 7800). SHA-256 in base64url; empty: not proven. */
export interface Confirmation {
  /** Of a DPoP key (RFC 9449 §6.1). */
  jkt: string;
  /** Of a client certificate (RFC 8705 §3.1). */
  x5tS256: string;
}

/** Holds no unchecked client input. */
export interface CallContext {
  /** UUIDv7. */
  requestId: string;
  /** W3C Trace Context: `00-<trace id>-<span id>-<flags>`. */
  traceparent: string;
  /** Absent for anonymous calls and internal work. */
  actor?: Actor;
  /** What the client has proven with this call. Absent: nothing. */
  proven?: Confirmation;
  /** The operator or auditor in the certificate: `operator:ada`. Not forwarded. */
  person?: string;
  /** Milliseconds of `Date.now()`. */
  deadlineMs: number;
}

export const CALL_BUDGET_MS = 1_000;

const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** @see W3C Trace Context §3.2 */
export function newCallContext(
  options: { requestId?: string; traceparent?: string | undefined; budgetMs?: number | undefined } = {},
): CallContext {
  return {
    requestId: options.requestId ?? uuidv7(),
    traceparent: continueTrace(options.traceparent),
    deadlineMs: Date.now() + (options.budgetMs ?? CALL_BUDGET_MS),
  };
}

export function traceIdOf(context: Pick<CallContext, "traceparent">): string {
  return context.traceparent.slice(3, 35);
}

export function isTraceparent(text: string): boolean {
  return TRACEPARENT.test(text);
}

const IDS_CHARACTERS = 48;
const DRAWN_BYTES = 128 * (IDS_CHARACTERS / 2);
let drawn = "";
let used = 0;

/** Of a trace and a span. Many are drawn together, because random bytes cost a system call. */
function randomIds(): string {
  if (used === drawn.length) {
    drawn = randomBytes(DRAWN_BYTES).toString("hex");
    used = 0;
  }
  used += IDS_CHARACTERS;
  return drawn.slice(used - IDS_CHARACTERS, used);
}

function continueTrace(traceparent: string | undefined): string {
  if (traceparent !== undefined && isTraceparent(traceparent)) return traceparent;
  const ids = randomIds();
  return `00-${ids.slice(0, 32)}-${ids.slice(32)}-00`;
}
