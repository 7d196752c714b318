import { createHash } from "node:crypto";
import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { SPELLING, UNSEEN_CLASS } from "#kit/values/unseen.ts";
import type { Entry, EntryOrigin, ProducedEntry } from "./entry.ts";

/** What is unseen can falsify text, but for spelling and what makes one emoji of several characters. PostgreSQL cannot store NUL. */
const UNPRINTABLE = new RegExp(
  `(?!${SPELLING}|(?<=[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\uFE0F])[\u200D\uFE0F])[${UNSEEN_CLASS}]`,
  "gv",
);
const REPLACEMENT = "\ufffd";
const ELLIPSIS = "…";
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const MAX_TIME_MS = Date.UTC(10_000, 0, 1) - 1;
/** For entries without a time: the day of receipt may differ in repetitions. */
const NO_DAY = "1970-01-01";
const MAX_HTTP_STATUS = 999;

/** Replaces unusable values and never throws. */
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

/** @param maxLength In UTF-16 units. */
export function cleanText(text: string, maxLength: number): string {
  const cut = text.length <= maxLength ? text : text.slice(0, maxLength - 1) + ELLIPSIS;
  // Comes last, because the cut can split a surrogate pair.
  return cut.toWellFormed().replace(UNPRINTABLE, REPLACEMENT);
}

/** A UUIDv8 of the origin, the same in repetitions. */
export function substituteId({ producerId, sequence }: EntryOrigin): string {
  const bytes = createHash("sha256").update(`${producerId}:${sequence}`).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** `2026-11-21` in UTC. */
export function dayOf(time: Date): string {
  return time.toISOString().slice(0, 10);
}

/** The common range of PostgreSQL and RFC 3339. */
function isPossibleTime(time: Date): boolean {
  const ms = time.getTime();
  return ms > 0 && ms <= MAX_TIME_MS;
}

function cleanCount(value: number, maximum: number): number {
  return Number.isInteger(value) && value >= 0 && value <= maximum ? value : 0;
}
