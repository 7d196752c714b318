import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError, type ErrorCode } from "../../service-kit/errors.ts";
import { findSessionEpoch } from "../sessions/session-end-store.ts";
import type { NewSession, SessionTokens, TokenService } from "../sessions/token-service-client.ts";
import type { User } from "../users/user.ts";
import { findUser } from "../users/user-store.ts";
import { type BeginMfaChallengeDeps, beginMfaChallenge, type MfaChallenge } from "./begin-mfa-challenge.ts";
import { beginPasswordChange, type PasswordChangeChallenge } from "./begin-password-change.ts";
import { type LoginOrigin, type RememberDeviceDeps, rememberDevice } from "./remember-device.ts";

export interface CompleteLoginDeps extends BeginMfaChallengeDeps, RememberDeviceDeps {
  tokenService: TokenService;
}

/** What a step of a login comes to: the session, or what is missing. The names are those of LoginResult in the proto. */
export type LoginResult = CompletedLogin | MfaChallenge | PasswordChangeChallenge;

/** A session that has begun. */
export interface CompletedLogin {
  kind: "completed";
  tokens: SessionTokens;
  user: User;
  /** For the next login on this device; empty if the account was deleted meanwhile. */
  deviceToken: string;
}

/** A user whose credentials were shown, and how. */
export interface ProvenUser {
  user: User;
  /** The user's when the credentials were right. */
  sessionEpoch: number;
  /** An administrator has asked for a new password. */
  mustChangePassword: boolean;
  /** RFC 8176, the first factor first: `pwd`, or `fed` for an identity provider, which RFC 8176 does not register. */
  amr: readonly string[];
  /** When the first factor was shown. */
  authTime: Date;
}

/**
 * The end of every login, whatever has proven the user: waits for a code if there is a second factor that was not shown,
 * or for the new password that an administrator has asked for; else begins the session and makes the device known.
 *
 * @param ifEnded what the client is told if the user's sessions were ended while this one began.
 * @throws {DomainError} `ifEnded`; `service_unavailable`.
 */
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
  // A user who came from an identity provider has not used the password that must be changed.
  if (proven.mustChangePassword && amr.includes("pwd")) {
    return beginPasswordChange(deps, { userId: user.id, sessionEpoch, amr });
  }
  const session = { userId: user.id, role: user.role, amr, authTime, clientIp, userAgent };
  const tokens = await beginSession(deps, session, sessionEpoch, context);
  if (tokens === undefined) throw new DomainError(ifEnded);
  const deviceToken = await rememberDevice(deps, { ...origin, user });
  return { kind: "completed", tokens, user, deviceToken };
}

/**
 * Begins a session for credentials that were right when the user's `session_epoch` was `epoch`. If sessions were ended
 * since (a new password, a disabled account), the new one may have come too late to be among them: then it ends here.
 *
 * @returns undefined in that case.
 */
async function beginSession(
  deps: Pick<CompleteLoginDeps, "sql" | "tokenService">,
  session: NewSession,
  epoch: number,
  context: CallContext,
): Promise<SessionTokens | undefined> {
  const tokens = await deps.tokenService.issueSession(session, context);
  // Read after the session is there: a later change of the epoch ends this session with the others.
  if ((await findSessionEpoch(deps.sql, session.userId)) === epoch) return tokens;
  const { userId } = session;
  // Of an account that was deleted meanwhile, token-service forgets where this login came from.
  const isDeleted = (await findUser(deps.sql, userId)) === undefined;
  const reason = isDeleted ? "account_deleted" : "credentials_changed";
  await deps.tokenService.revokeSession({ sessionId: tokens.sessionId, userId, reason }, context);
  return undefined;
}
