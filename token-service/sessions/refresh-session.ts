import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { Confirmation } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { SharedTurns } from "#kit/values/turns.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { isKeyId, parseCompactJws } from "#token-client/compact-jws.ts";
import { REFRESH_TOKEN_TYPE } from "#token-client/token-rules.ts";
import { insertSecurityEvent } from "../events/security-event-store.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { logName } from "../keys/signing-key.ts";
import type { RevocationFeed } from "../revocations/revocation-feed.ts";
import { isProven } from "../rows/confirmation.ts";
import {
  advanceLiveGeneration,
  lockSession,
  type NextGeneration,
  noteSigning,
  readSession,
  type SessionRow,
} from "../rows/session-store.ts";
import { isDeviceCookie } from "../tokens/device-proof.ts";
import { isAuthenticatedBy, MAC_ALGORITHM } from "../tokens/jws-signature.ts";
import { checkRefreshClaims, isTokenId, type RefreshClaims } from "../tokens/refresh-token.ts";
import {
  assertMaySign,
  refreshPurpose,
  type SignPairDeps,
  signPair,
  type TokenPair,
} from "../tokens/sign-pair.ts";
import { endSessions } from "./end-sessions.ts";

export interface RefreshOrigin {
  ip: string;
  userAgent: string;
  requestId: string;
  traceId: string;
  /** Keys that the client has proven with the call. */
  proven?: Confirmation | undefined;
  /** Empty or absent without a proof of the browser's device. */
  deviceCookie?: string | undefined;
}

/** Shared: the answer to another call with the same token, which is counted by what came of it. */
export type RefreshResult = Outcome["kind"] | "shared";

export interface RefreshSessionDeps extends SignPairDeps {
  sql: Sql;
  keys: Pick<KeyRing, "active" | "find" | "findAgain">;
  revocations: Pick<RevocationFeed, "announce">;
  now: () => Date;
  refreshTurns: SharedTurns;
  countRefresh: (result: RefreshResult) => void;
  /** Called after the commit. */
  onSecurityEvent: () => void;
  logger: Logger;
}

type Outcome =
  | { kind: "rotated" | "repeated"; session: SessionRow }
  | { kind: "reused" }
  /** Without the key that the session is bound to. */
  | { kind: "unproven" }
  /** Without a recent proof of the device that the session is bound to. */
  | { kind: "no_device" }
  | { kind: "invalid" };

type Refusal = "invalid" | "unproven" | "no_device";

/**
 * RFC 9700 §4.14.2. Who stole the refresh token of a bound session, and not its key, can neither use it nor end the
 * session with it. @throws {DomainError} `refresh_token_invalid`, `refresh_token_reused`, `device_proof_missing`.
 */
export async function refreshSession(
  deps: RefreshSessionDeps,
  presented: string,
  origin: RefreshOrigin,
): Promise<TokenPair> {
  assertMaySign(deps);
  const claims = await verifyRefreshToken(deps, presented);
  const { outcome, isShared } =
    claims === undefined ? refused("invalid") : await rotateInTurn(deps, presented, claims, origin);
  deps.countRefresh(isShared ? "shared" : outcome.kind);
  if (outcome.kind === "unproven")
    deps.logger.warn({ session: logName(claims?.sid ?? "") }, "refresh without the session's key");
  if (outcome.kind === "invalid" || outcome.kind === "unproven")
    throw new DomainError("refresh_token_invalid");
  if (outcome.kind === "no_device") throw new DomainError("device_proof_missing");
  if (outcome.kind === "reused") {
    if (!isShared) {
      deps.revocations.announce();
      deps.onSecurityEvent();
      deps.logger.warn({ session: logName(claims?.sid ?? "") }, "refresh token reused: session ended");
    }
    // Thrown after the commit: inside, it would roll back the end of the session.
    throw new DomainError("refresh_token_reused");
  }
  return signPair(deps, outcome.session, deps.now());
}

/**
 * Before a connection is taken. All calls wait for one reading of the row, and only those that it does not refuse take a
 * place in the queue: a thief without the session's key has none. Calls that wait with the same token share an answer: one
 * after the other they would get the same.
 */
async function rotateInTurn(
  deps: RefreshSessionDeps,
  presented: string,
  claims: RefreshClaims,
  origin: RefreshOrigin,
): Promise<{ outcome: Outcome; isShared: boolean }> {
  const { sid } = claims;
  const { session, now } = await deps.refreshTurns.share(sid, `read ${sid}`, async () => {
    const now = deps.now(); // Before the reading: another refresh may move the idle end.
    return { session: await readSession(deps.sql, sid), now };
  });
  if (session === undefined) return refused("invalid");
  const refusal = refusalOf(session, claims, origin, now);
  if (refusal !== undefined) return refused(refusal);
  let isShared = true;
  const outcome = await deps.refreshTurns.share(sid, presented, async () => {
    isShared = false;
    const rotated = claims.gen === session.generation && (await rotateAtOnce(deps, session, origin));
    return rotated || transaction(deps.sql, (tx) => rotateOrEnd(tx, deps, claims, origin));
  });
  return { outcome, isShared };
}

function refused(kind: Refusal): { outcome: Outcome; isShared: boolean } {
  return { outcome: { kind }, isShared: false };
}

/** Accepts tokens of banned keys: the key alone cannot make a `jti`. */
export async function verifyRefreshToken(
  deps: Pick<RefreshSessionDeps, "keys" | "issuer" | "now">,
  text: string,
): Promise<RefreshClaims | undefined> {
  const jws = parseCompactJws(text);
  if (typeof jws === "string" || jws.header.typ !== REFRESH_TOKEN_TYPE || !isKeyId(jws.header.kid))
    return undefined;
  const key = deps.keys.find(jws.header.kid) ?? (await deps.keys.findAgain(jws.header.kid));
  if (
    key === undefined ||
    jws.header.alg !== MAC_ALGORITHM ||
    !isAuthenticatedBy(jws.text, key.refreshSecret)
  )
    return undefined;
  return checkRefreshClaims(jws.payload, deps.issuer, Math.floor(deps.now().getTime() / 1_000));
}

/**
 * The newest token of a live session, as nearly always. One statement decides whether it still is, without a transaction.
 * Undefined otherwise: `rotateOrEnd` finds out why.
 */
async function rotateAtOnce(
  deps: RefreshSessionDeps,
  session: SessionRow,
  origin: RefreshOrigin,
): Promise<Outcome | undefined> {
  const rotated = await advanceLiveGeneration(deps.sql, session, nextOf(deps, session, origin, deps.now()));
  return rotated && { kind: "rotated", session: rotated };
}

function refusalOf(
  session: SessionRow,
  claims: RefreshClaims,
  { proven, deviceCookie = "" }: Pick<RefreshOrigin, "proven" | "deviceCookie">,
  now: Date,
): Refusal | undefined {
  const isOurs =
    session.userId === claims.sub &&
    isTokenId(claims.jti, session.tokenSecret, refreshPurpose(claims.gen, session));
  if (!isOurs || session.revokedAt !== null || session.idleEnd <= now) return "invalid";
  if (!isProven(session, proven)) return "unproven";
  return session.deviceKey === null || isDeviceCookie(session, deviceCookie, now) ? undefined : "no_device";
}

/** Generations decide. The clock only ends sessions and the grace period. */
async function rotateOrEnd(
  tx: TransactionSql,
  deps: RefreshSessionDeps,
  claims: RefreshClaims,
  { proven, deviceCookie, ...origin }: RefreshOrigin,
): Promise<Outcome> {
  const session = await lockSession(tx, claims.sid);
  const now = deps.now(); // Read after the wait for the lock.
  if (session === undefined) return { kind: "invalid" };
  const refusal = refusalOf(session, claims, { proven, deviceCookie }, now);
  if (refusal !== undefined) return { kind: refusal };
  if (claims.gen === session.generation) {
    const rotated = await advanceLiveGeneration(tx, session, nextOf(deps, session, origin, now));
    return rotated === undefined ? { kind: "invalid" } : { kind: "rotated", session: rotated };
  }
  if (claims.gen === session.generation - 1 && mayRepeat(deps, session, now)) {
    // A hundred racing tabs cause one write. `SIGNING_ROOM_MS` covers the delay.
    if (session.signedLongAgo) await noteSigning(tx, session.id);
    return { kind: "repeated", session };
  }
  const { id: sessionId, userId } = session;
  await insertSecurityEvent(tx, {
    ...origin,
    id: uuidv7(),
    type: "refresh_reuse",
    userId,
    sessionId,
    keyId: null,
    reason: "",
    occurredAt: now,
  });
  const end = { userId, sessionIds: [sessionId], reason: "refresh_reuse", at: now };
  await endSessions(tx, end, deps.lifetimes);
  return { kind: "reused" };
}

/** The answer was lost, or tabs raced. */
function mayRepeat(deps: RefreshSessionDeps, session: SessionRow, now: Date): boolean {
  const sinceRotationMs = now.getTime() - session.rotatedAt.getTime();
  return !session.leafSeen || sinceRotationMs < deps.lifetimes.refreshGraceS * 1_000;
}

function nextOf(
  { lifetimes }: RefreshSessionDeps,
  session: SessionRow,
  { ip, userAgent }: Pick<RefreshOrigin, "ip" | "userAgent">,
  now: Date,
): NextGeneration {
  const idleEndMs = now.getTime() + (session.idleS ?? lifetimes.refreshIdleTtlS) * 1_000;
  const idleEnd = new Date(Math.min(idleEndMs, session.absoluteEnd.getTime()));
  return { rotatedAt: now, idleEnd, ip, userAgent };
}
