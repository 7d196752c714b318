import { createHash } from "node:crypto";
import type { Entry, EntryOrigin, ProducedEntry } from "./entry.ts";

/**
 * Longest values, in UTF-16 units. The recorder cuts at the same lengths, so that 200 entries fit into one message
 * whatever is in them.
 */
export const MAX_LENGTH = {
  callId: 40,
  // A UUID, or `client:` and the name of a service.
  userId: 80,
  role: 16,
  sessionId: 40,
  claimedEmail: 254,
  clientIp: 64,
  userAgent: 512,
  method: 16,
  route: 200,
  resource: 200,
  action: 64,
  requestId: 40,
  traceId: 40,
  errorCode: 64,
  reason: 200,
} as const;

/**
 * Control characters, line separators and the marks that turn text around (which make a log say what it does not)
 * or that PostgreSQL cannot hold (NUL).
 */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const REPLACEMENT = "\ufffd";
const ELLIPSIS = "…";
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const MAX_TIME_MS = Date.UTC(10_000, 0, 1) - 1;
/** Of an entry without a time: the time of receipt would be another one when it is sent again. */
const NO_DAY = "1970-01-01";
const MAX_HTTP_STATUS = 999;

/**
 * Makes any entry storable. Nothing is refused: a value that cannot be kept as it is, is replaced; the rest stays.
 *
 * @param receivedAt stands in for a missing or impossible time.
 */
export function cleanEntry(entry: Entry, origin: EntryOrigin, receivedAt: Date): ProducedEntry {
  const { actor } = entry;
  const hasTime = isPossibleTime(entry.occurredAt);
  return {
    origin: hasTime ? origin : { ...origin, day: NO_DAY },
    entry: {
      id: UUID.test(entry.id) ? entry.id.toLowerCase() : substituteId(origin),
      kind: entry.kind,
      callId: cleanText(entry.callId, MAX_LENGTH.callId),
      occurredAt: hasTime ? entry.occurredAt : receivedAt,
      actor: {
        userId: cleanText(actor.userId, MAX_LENGTH.userId),
        role: cleanText(actor.role, MAX_LENGTH.role),
        sessionId: cleanText(actor.sessionId, MAX_LENGTH.sessionId),
        claimedEmail: cleanText(actor.claimedEmail, MAX_LENGTH.claimedEmail),
      },
      clientIp: cleanText(entry.clientIp, MAX_LENGTH.clientIp),
      userAgent: cleanText(entry.userAgent, MAX_LENGTH.userAgent),
      method: cleanText(entry.method, MAX_LENGTH.method),
      route: cleanText(entry.route, MAX_LENGTH.route),
      resource: cleanText(entry.resource, MAX_LENGTH.resource),
      action: cleanText(entry.action, MAX_LENGTH.action),
      requestId: cleanText(entry.requestId, MAX_LENGTH.requestId),
      traceId: cleanText(entry.traceId, MAX_LENGTH.traceId),
      outcome: entry.outcome,
      errorCode: cleanText(entry.errorCode, MAX_LENGTH.errorCode),
      reason: cleanText(entry.reason, MAX_LENGTH.reason),
      httpStatus: cleanCount(entry.httpStatus, MAX_HTTP_STATUS),
      latencyUs: cleanCount(entry.latencyUs, Number.MAX_SAFE_INTEGER),
    },
  };
}

/**
 * Text that can be stored and shown: what cannot be printed becomes U+FFFD, what is too long ends in `…`.
 *
 * @param maxLength in UTF-16 units.
 */
export function cleanText(text: string, maxLength: number): string {
  const cut = text.length <= maxLength ? text : text.slice(0, maxLength - 1) + ELLIPSIS;
  // After the cut, because the cut can leave half a surrogate pair.
  return cut.toWellFormed().replace(UNPRINTABLE, REPLACEMENT);
}

/**
 * An id for an entry whose own cannot be used: a UUIDv8 of where the entry comes from, so that sending it again
 * gives the same.
 */
export function substituteId({ producerId, sequence }: EntryOrigin): string {
  const bytes = createHash("sha256").update(`${producerId}:${sequence}`).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** `2026-11-21`, UTC. */
export function dayOf(time: Date): string {
  return time.toISOString().slice(0, 10);
}

/** Within what PostgreSQL and RFC 3339 can both write. */
function isPossibleTime(time: Date): boolean {
  const ms = time.getTime();
  return ms > 0 && ms <= MAX_TIME_MS;
}

function cleanCount(value: number, maximum: number): number {
  return Number.isInteger(value) && value >= 0 && value <= maximum ? value : 0;
}
