import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { AssuranceLevel } from "#token-client/assurance.ts";
import { insertCausedEvent } from "../events/security-event-store.ts";
import { lockSession, noteSigning, raiseAssurance, type SessionRow } from "../rows/session-store.ts";
import {
  assertMaySign,
  type SignedAccessToken,
  type SignPairDeps,
  secondsOf,
  signAccessToken,
} from "../tokens/sign-pair.ts";

export interface RaiseSessionDeps extends SignPairDeps {
  sql: Sql;
  now: () => Date;
  /** Called after the commit. */
  onSecurityEvent: () => void;
}

interface Proof {
  sessionId: string;
  userId: string;
  acr: AssuranceLevel;
  /** RFC 8176. */
  amr: readonly string[];
}

/**
 * A proof of the session's level makes it fresh, one of a higher level raises it, and a lower one changes nothing.
 * @throws {DomainError} `not_found` if the user has no such live session.
 */
export async function raiseSession(
  deps: RaiseSessionDeps,
  proof: Proof,
): Promise<SignedAccessToken & { acr: AssuranceLevel }> {
  assertMaySign(deps);
  const { session, isHigher } = await transaction(deps.sql, (tx) => noteProof(tx, deps, proof));
  if (isHigher) deps.onSecurityEvent();
  const nowS = secondsOf(deps.now());
  return { ...signAccessToken(deps, session, { nowS, issuedAtS: nowS }), acr: session.acr };
}

async function noteProof(tx: TransactionSql, deps: RaiseSessionDeps, proof: Proof) {
  const session = await lockSession(tx, proof.sessionId);
  const now = deps.now(); // Read after the wait for the lock.
  if (session?.userId !== proof.userId || session.revokedAt !== null || session.idleEnd <= now)
    throw new DomainError("not_found");
  if (proof.acr < session.acr) {
    await noteSigning(tx, session.id);
    return { session, isHigher: false };
  }
  const raised = {
    acr: proof.acr,
    amr: [...new Set([...session.amr, ...proof.amr])].slice(0, MAX_METHODS),
    authTime: now,
  };
  await raiseAssurance(tx, session.id, raised);
  const isHigher = proof.acr > session.acr;
  if (isHigher) {
    const { id: sessionId, userId, acr } = session;
    const cause = { requestId: "", traceId: "", reason: `${acr} to ${raised.acr}`, occurredAt: now };
    await insertCausedEvent(tx, { type: "session_raised", userId, sessionId, ...cause });
  }
  return { session: { ...session, ...raised } satisfies SessionRow, isHigher };
}

/** Values of the claim `amr`. */
const MAX_METHODS = 8;
