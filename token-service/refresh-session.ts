import { v7 as uuidv7 } from "uuid";
import type { Confirmation } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import { type Sql, type TransactionSql, transaction } from "../service-kit/postgres.ts";
import { isKeyId, parseCompactJws } from "../token-client/compact-jws.ts";
import { REFRESH_TOKEN_TYPE } from "../token-client/token-rules.ts";
import { isProven } from "./confirmation.ts";
import type { KeyRing } from "./key-ring.ts";
import { checkRefreshClaims, type RefreshClaims } from "./refresh-token.ts";
import type { RevocationFeed } from "./revocation-feed.ts";
import { appendRevocations } from "./revocation-store.ts";
import { insertSecurityEvent } from "./security-event-store.ts";
import {
  advanceGeneration,
  lockSession,
  markSessionsRevoked,
  noteSigning,
  type SessionRow,
} from "./session-store.ts";
import { assertMaySign, refreshPurpose, type SignPairDeps, signPair, type TokenPair } from "./sign-pair.ts";
import { logName } from "./signing-key.ts";
import { isTokenId } from "./token-id.ts";
import { accessTokenLifeS } from "./token-lifetimes.ts";
import { checkSignature } from "./verify-token.ts";

export interface RefreshOrigin {
  ip: string;
  userAgent: string;
  requestId: string;
  traceId: string;
  /** Keys that the client has proven with the call. */
  proven?: Confirmation | undefined;
}

export type RefreshResult = "rotated" | "repeated" | "reused" | "unproven" | "invalid";

export interface RefreshSessionDeps extends SignPairDeps {
  sql: Sql;
  keys: Pick<KeyRing, "active" | "find" | "findAgain">;
  revocations: Pick<RevocationFeed, "announce">;
  now: () => Date;
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
  | { kind: "invalid" };

/**
 * RFC 9700 §4.14.2. Who stole the refresh token of a bound session, and not its key, can neither use it nor end the
 * session with it. @throws {DomainError} `refresh_token_invalid`, `refresh_token_reused`.
 */
export async function refreshSession(
  deps: RefreshSessionDeps,
  presented: string,
  origin: RefreshOrigin,
): Promise<TokenPair> {
  assertMaySign(deps);
  const claims = await verifyRefreshToken(deps, presented);
  const outcome: Outcome =
    claims === undefined
      ? { kind: "invalid" }
      : await transaction(deps.sql, (tx) => rotateOrEnd(tx, deps, claims, origin));
  deps.countRefresh(outcome.kind);
  if (outcome.kind === "unproven")
    deps.logger.warn({ session: logName(claims?.sid ?? "") }, "refresh without the session's key");
  if (outcome.kind === "invalid" || outcome.kind === "unproven")
    throw new DomainError("refresh_token_invalid");
  if (outcome.kind === "reused") {
    deps.revocations.announce();
    deps.onSecurityEvent();
    deps.logger.warn({ session: logName(claims?.sid ?? "") }, "refresh token reused: session ended");
    // Thrown after the commit: inside, it would roll back the end of the session.
    throw new DomainError("refresh_token_reused");
  }
  return signPair(deps, outcome.session, deps.now());
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
  if (key === undefined || checkSignature(jws, key) !== undefined) return undefined;
  return checkRefreshClaims(jws.payload, deps.issuer, Math.floor(deps.now().getTime() / 1_000));
}

/** Generations decide. The clock only ends sessions and the grace period. */
async function rotateOrEnd(
  tx: TransactionSql,
  deps: RefreshSessionDeps,
  claims: RefreshClaims,
  { proven, ...origin }: RefreshOrigin,
): Promise<Outcome> {
  const session = await lockSession(tx, claims.sid);
  const now = deps.now(); // Read after the wait for the lock.
  const isOurs =
    session?.userId === claims.sub &&
    isTokenId(claims.jti, session.tokenSecret, refreshPurpose(claims.gen, session));
  if (!isOurs || session.revokedAt !== null || session.idleEnd <= now) return { kind: "invalid" };
  if (!isProven(session, proven)) return { kind: "unproven" };
  if (claims.gen === session.generation) {
    return { kind: "rotated", session: await rotate(tx, deps, session, origin, now) };
  }
  if (claims.gen === session.generation - 1 && mayRepeat(deps, session, now)) {
    // A hundred racing tabs cause one write. `SIGNING_ROOM_MS` covers the delay.
    if (session.signedLongAgo) await noteSigning(tx, session.id);
    return { kind: "repeated", session };
  }
  await markSessionsRevoked(tx, [session.id], "refresh_reuse", now);
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
  await appendRevocations(tx, [{ sessionId: session.id }], accessTokenLifeS(deps.lifetimes.accessTtlS));
  return { kind: "reused" };
}

/** The answer was lost, or tabs raced. */
function mayRepeat(deps: RefreshSessionDeps, session: SessionRow, now: Date): boolean {
  const sinceRotationMs = now.getTime() - session.rotatedAt.getTime();
  return !session.leafSeen || sinceRotationMs < deps.lifetimes.refreshGraceS * 1_000;
}

async function rotate(
  tx: TransactionSql,
  deps: RefreshSessionDeps,
  session: SessionRow,
  origin: RefreshOrigin,
  now: Date,
): Promise<SessionRow> {
  const idleEndMs = now.getTime() + (session.idleS ?? deps.lifetimes.refreshIdleTtlS) * 1_000;
  const next = {
    generation: session.generation + 1,
    rotatedAt: now,
    idleEnd: new Date(Math.min(idleEndMs, session.absoluteEnd.getTime())),
    ip: origin.ip,
    userAgent: origin.userAgent,
  };
  await advanceGeneration(tx, session.id, next);
  return { ...session, ...next, leafSeen: false };
}
