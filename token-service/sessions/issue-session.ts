import { randomBytes } from "node:crypto";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import type { Confirmation } from "#kit/rpc/call-context.ts";
import { withTurn } from "#kit/values/call-deadline.ts";
import type { RevocationFeed } from "../revocations/revocation-feed.ts";
import { bindingTo } from "../rows/confirmation.ts";
import {
  countLiveSessions,
  insertSession,
  lockLiveSessions,
  lockUser,
  type SessionRow,
} from "../rows/session-store.ts";
import { SlotAwayError } from "../rows/slot-store.ts";
import { newSessionId } from "../rows/user-slot.ts";
import { deviceChallenge } from "../tokens/device-proof.ts";
import { assertNotAhead } from "../tokens/proven-now.ts";
import { assertMaySign, type SignPairDeps, signPair, type TokenPair } from "../tokens/sign-pair.ts";
import { endSessions } from "./end-sessions.ts";

/** Undefined: as the service is set. */
interface SessionLimits {
  idleS?: number | undefined;
  absoluteS?: number | undefined;
  /** Live sessions of the user. The oldest are revoked for this one. */
  atMost?: number | undefined;
}

export type NewSession = Pick<
  SessionRow,
  "userId" | "role" | "amr" | "acr" | "authTime" | "ip" | "userAgent"
> & { limits?: SessionLimits | undefined; proven?: Confirmation | undefined };

export interface IssueSessionDeps extends SignPairDeps {
  sql: Sql;
  maxSessionsPerUser: number;
  revocations: Pick<RevocationFeed, "announce">;
  now: () => Date;
  /** Called after the commit. */
  onSecurityEvent: () => void;
}

/** @throws {DomainError} `service_unavailable`: no key may sign, or a clock is wrong. */
export async function issueSession(deps: IssueSessionDeps, request: NewSession): Promise<TokenPair> {
  assertMaySign(deps);
  const now = deps.now();
  assertNotAhead(request.authTime, now);
  const session = newSession(deps, request, now);
  await withTurn(session.userId, async () => {
    await insertSession(deps.sql, session);
    // After the commit: of several at the same time, the last one sees all.
    const atMost = request.limits?.atMost ?? deps.maxSessionsPerUser;
    if ((await countLiveSessions(deps.sql, session.userId, now)) > atMost)
      await endSurplus(deps, session, atMost).catch(ignoreMove);
  });
  const pair = signPair(deps, session, now);
  return pair.confirmation ? pair : { ...pair, deviceChallenge: deviceChallenge(session, now) };
}

/** The session is there, and moves with the others: they are ended at the next login. */
function ignoreMove(error: unknown): void {
  if (!(error instanceof SlotAwayError)) throw error;
}

/** Ends the oldest, before the newest gets its tokens. */
async function endSurplus(deps: IssueSessionDeps, { userId }: SessionRow, atMost: number): Promise<void> {
  await transaction(deps.sql, async (tx) => {
    await lockUser(tx, userId);
    const now = deps.now();
    const live = (await lockLiveSessions(tx, userId)).filter(({ idleEnd }) => idleEnd > now);
    const surplus = live.slice(0, Math.max(live.length - atMost, 0)).map(({ id }) => id);
    if (surplus.length === 0) return;
    await endSessions(tx, { userId, sessionIds: surplus, reason: "session_limit", at: now }, deps.lifetimes);
  });
  deps.revocations.announce();
  deps.onSecurityEvent();
}

function newSession(
  deps: IssueSessionDeps,
  { limits: { idleS, absoluteS } = {}, proven, ...request }: NewSession,
  now: Date,
): SessionRow {
  // Signing keys are kept for refresh tokens of the service's own limit.
  const idleTtlS = Math.min(idleS ?? Number.POSITIVE_INFINITY, deps.lifetimes.refreshIdleTtlS);
  const absoluteTtlS = absoluteS ?? deps.lifetimes.sessionAbsoluteTtlS;
  const after = (seconds: number) => new Date(now.getTime() + seconds * 1_000);
  return {
    ...request,
    ...bindingTo(proven),
    id: newSessionId(request.userId),
    tokenSecret: randomBytes(32),
    generation: 1,
    rotatedAt: now,
    leafSeen: false,
    createdAt: now,
    lastUsedAt: now,
    deviceKey: null,
    deviceProofs: 0,
    idleS: idleS === undefined ? null : idleTtlS,
    idleEnd: after(Math.min(idleTtlS, absoluteTtlS)),
    absoluteEnd: after(absoluteTtlS),
    revokedAt: null,
  };
}
