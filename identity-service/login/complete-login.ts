import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError, type ErrorCode } from "../../service-kit/errors.ts";
import { findSessionEpoch } from "../sessions/session-end-store.ts";
import type { NewSession, SessionTokens } from "../sessions/token-service-client.ts";
import type { User } from "../users/user.ts";
import { findUser } from "../users/user-store.ts";
import { beginMfaChallenge, type MfaChallenge } from "./begin-mfa-challenge.ts";
import { beginPasswordChange, type PasswordChangeChallenge } from "./begin-password-change.ts";
import type { CompleteLoginDeps } from "./login-deps.ts";
import { type LoginOrigin, rememberDevice } from "./remember-device.ts";

/** The names match LoginResult in the proto. */
export type LoginResult = CompletedLogin | MfaChallenge | PasswordChangeChallenge;

interface CompletedLogin {
  kind: "completed";
  tokens: SessionTokens;
  user: User;
  /** Empty if the account was deleted meanwhile. */
  deviceToken: string;
}

export interface ProvenUser {
  user: User;
  sessionEpoch: number;
  mustChangePassword: boolean;
  /** RFC 8176, first factor first: `pwd`, or the unregistered `fed` for an identity provider. */
  amr: readonly string[];
  authTime: Date;
}

/** Begins the session or requests a missing step. @throws {DomainError} `ifEnded` if sessions were ended meanwhile. */
export async function completeLogin(
  deps: CompleteLoginDeps,
  proven: ProvenUser,
  origin: LoginOrigin,
  ifEnded: ErrorCode,
  context: CallContext,
): Promise<LoginResult> {
  const { user, sessionEpoch, amr, authTime } = proven;
  const { clientIp, userAgent } = origin;
  if (user.mfaEnabled && !amr.includes("mfa")) {
    const firstFactor = amr.includes("fed") ? "fed" : "pwd";
    return beginMfaChallenge(deps, { userId: user.id, firstFactor, sessionEpoch, clientIp, userAgent });
  }
  // A federated login has not used the password.
  if (proven.mustChangePassword && amr.includes("pwd")) {
    return beginPasswordChange(deps, { userId: user.id, sessionEpoch, amr });
  }
  const session = { userId: user.id, role: user.role, amr, authTime, clientIp, userAgent };
  const tokens = await beginSession(deps, session, sessionEpoch, context);
  if (tokens === undefined) throw new DomainError(ifEnded);
  const deviceToken = await rememberDevice(deps, { ...origin, user });
  return { kind: "completed", tokens, user, deviceToken };
}

/** Undefined if the user's sessions were ended since `epoch`. */
async function beginSession(
  deps: Pick<CompleteLoginDeps, "sql" | "tokenService">,
  session: NewSession,
  epoch: number,
  context: CallContext,
): Promise<SessionTokens | undefined> {
  const tokens = await deps.tokenService.issueSession(session, context);
  // Read after the session exists, so that a later session end includes it.
  if ((await findSessionEpoch(deps.sql, session.userId)) === epoch) return tokens;
  const { userId } = session;
  // For a deleted account, token-service also erases the origin of this login.
  const isDeleted = (await findUser(deps.sql, userId)) === undefined;
  const reason = isDeleted ? "account_deleted" : "credentials_changed";
  await deps.tokenService.revokeSession({ sessionId: tokens.sessionId, userId, reason }, context);
  return undefined;
}
