import { readDatabaseClock, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { CLOCK_SKEW_S } from "#token-client/assurance.ts";
import { type EventCause, insertCausedEvent } from "../events/security-event-store.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { listKeys } from "../keys/key-store.ts";
import { type RevokeSigningKeyDeps, revokeSigningKey } from "../keys/revoke-signing-key.ts";
import type { SessionPart } from "../parts/open-part.ts";
import type { Parts } from "../parts/parts.ts";
import { appendRevocations } from "../revocations/revocation-store.ts";
import { accessTokenLifeS } from "../revocations/token-lifetimes.ts";
import { revokeNextSessions } from "../rows/session-store.ts";
import { readSlotChanges, SlotAwayError, type SlotChanges } from "../rows/slot-store.ts";

export interface RevokeAllSessionsDeps extends RevokeSigningKeyDeps {
  parts: Pick<Parts<SessionPart>, "all" | "announce">;
  keys: Pick<KeyRing, "reload">;
  /** Called after the commit. */
  onSecurityEvent: () => void;
}

export interface SweepPosition {
  beganAt: Date;
  /** Number of the part that is being swept. */
  part: number;
  /** Of slots in all parts, before the first was swept; -1: a part has not answered. */
  changes: number;
  sessionId: string;
}

export interface RevokeAllRequest {
  /** Undefined: all that have begun when the first part begins, whatever the operator's clock says. */
  issuedBefore?: Date | undefined;
  reason: string;
  /** Undefined to begin. */
  cursor: SweepPosition | undefined;
}

const BATCH = 2_000;
/** Well below the deadline of a call. */
const WORK_MS = 4_000;
/** Tolerance for the operator's clock. */
const CLOCK_ROOM_MS = 60_000;
/** Tokens of rows this old may be newer than the ban: rows are written first. */
const SIGNING_ROOM_MS = 60_000;
const REVOKED_REASON = "all_sessions_revoked";

/**
 * Works in parts. The first bans all signing keys, which ends all access tokens. A session gets a log entry
 * only if a new key may have signed for it. @throws {DomainError} `validation_failed` for a future time.
 */
export async function revokeAllSessions(
  deps: RevokeAllSessionsDeps,
  request: RevokeAllRequest,
  cause: EventCause,
): Promise<{ ended: number; next: SweepPosition | undefined; bannedKeyIds: string[] }> {
  const startedMs = performance.now();
  if ((request.issuedBefore?.getTime() ?? 0) > deps.now().getTime() + CLOCK_ROOM_MS) {
    throw new DomainError("validation_failed", "issued_before is in the future");
  }
  const { all } = deps.parts;
  const position = request.cursor ?? {
    beganAt: await readDatabaseClock(deps.sql),
    part: 0,
    changes: await readChanges(all).then(
      ({ changes }) => changes,
      () => UNKNOWN,
    ),
    sessionId: FIRST_SESSION,
  };
  const { beganAt } = position;
  const bannedKeyIds = request.cursor === undefined ? await banEveryKey(deps, request.reason, cause) : [];
  // A replica whose clock is ahead gave its sessions a later begin.
  const issuedBefore = request.issuedBefore ?? new Date(beganAt.getTime() + CLOCK_SKEW_S * 1_000);
  let next: SweepPosition | undefined = position;
  let ended = 0;
  do {
    const swept = await endNext(deps, next, issuedBefore);
    ended += swept.ended;
    next = swept.next;
  } while (next !== undefined && performance.now() - startedMs < WORK_MS);
  deps.parts.announce();
  return { ended, bannedKeyIds, next };
}

const FIRST_SESSION = "00000000-0000-0000-0000-000000000000";

/** Until all parts have answered: no sweep is the last one then. */
const UNKNOWN = -1;

/** Of all parts together. @throws {DomainError} `service_unavailable` naming a part that does not answer. */
async function readChanges(parts: readonly SessionPart[]): Promise<SlotChanges> {
  const read = await Promise.all(
    parts.map(({ number, sql }) =>
      readSlotChanges(sql).catch((cause: unknown) => {
        const message = `Part ${number} does not answer: its sessions go on`;
        throw new DomainError("service_unavailable", message, { cause });
      }),
    ),
  );
  return {
    changes: read.reduce((sum, { changes }) => sum + changes, 0),
    leaving: read.find(({ leaving }) => leaving !== null)?.leaving ?? null,
  };
}

/** The next key goes first: an old backup may hold it. */
async function banEveryKey(
  deps: RevokeAllSessionsDeps,
  reason: string,
  cause: EventCause,
): Promise<string[]> {
  const keys = (await listKeys(deps.sql)).filter(({ state }) => state !== "revoked");
  keys.sort((a, b) => Number(b.state === "next") - Number(a.state === "next"));
  await transaction(deps.sql, (tx) =>
    insertCausedEvent(tx, { type: "all_sessions_revoked", ...cause, reason, occurredAt: deps.now() }),
  );
  for (const { id } of keys) await revokeSigningKey(deps, id, { ...cause, reason });
  deps.onSecurityEvent();
  await deps.keys.reload(); // Keys in memory must not sign any more.
  return keys.map(({ id }) => id);
}

/**
 * From part to part, and again if sessions have moved meanwhile: some may have passed by. A part that does not answer keeps no
 * other one waiting; the end is not reached without it, nor while sessions are on their way.
 */
async function endNext(
  deps: RevokeAllSessionsDeps,
  position: SweepPosition,
  issuedBefore: Date,
): Promise<{ ended: number; next: SweepPosition | undefined }> {
  const { all } = deps.parts;
  const part = all.find(({ number }) => number === position.part);
  if (part === undefined) throw new DomainError("validation_failed", "cursor is invalid");
  const isAway = (error: unknown) =>
    all.length > 1 && error instanceof DomainError && error.code === "service_unavailable";
  const { ended, cursor, changes } = await sweepPage(deps, part, position, issuedBefore).catch((error) => {
    if (!isAway(error)) throw error;
    return { ended: 0, cursor: undefined, changes: UNKNOWN };
  });
  if (cursor !== undefined) return { ended, next: { ...position, sessionId: cursor } };
  const next = { ...position, changes, sessionId: FIRST_SESSION };
  const following = all[all.indexOf(part) + 1];
  if (following !== undefined) return { ended, next: { ...next, part: following.number } };
  const newest = await readChanges(all);
  if (newest.changes !== changes) return { ended, next: { ...next, part: 0, changes: newest.changes } };
  if (newest.leaving !== null) throw new SlotAwayError(newest.leaving);
  return { ended, next: undefined };
}

async function sweepPage(
  deps: RevokeAllSessionsDeps,
  { sql }: SessionPart,
  { beganAt, changes, sessionId }: SweepPosition,
  issuedBefore: Date,
): Promise<{ ended: number; cursor: string | undefined; changes: number }> {
  return transaction(sql, async (tx) => {
    const signedSince = new Date(beganAt.getTime() - SIGNING_ROOM_MS);
    const which = { issuedBefore, signedSince, cursor: sessionId, limit: BATCH };
    const result = await revokeNextSessions(tx, which, REVOKED_REASON);
    const targets = result.ended
      .filter(({ maybeSignedSince }) => maybeSignedSince)
      .map(({ id }) => ({ sessionId: id }));
    await appendRevocations(tx, targets, accessTokenLifeS(deps.accessTtlS));
    return { ended: result.ended.length, cursor: result.cursor, changes };
  });
}
