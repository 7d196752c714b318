import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { type AssuranceLevel, levelFromAmr } from "#token-client/assurance.ts";
import { type ClientOrigin, storableOrigin } from "../audit/client-origin.ts";
import { type FirstFactor, insertMfaChallenge } from "../mfa/mfa-store.ts";
import { isMfaRequired, secondFactorsOf } from "../mfa/second-factors.ts";
import { beginPasskeyCeremony } from "../passkeys/passkey-ceremony.ts";
import { noteLogin } from "../sessions/session-end-store.ts";
import type { NewSession, SessionTokens } from "../sessions/token-service-client.ts";
import { knownDevice } from "../throttle/known-caller.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { insertEnrollment, type NewLoginStep } from "./enrollment-store.ts";
import type { LoginDeps } from "./login-deps.ts";
import type {
  LoginResult,
  MfaChallenge,
  MfaEnrollmentChallenge,
  PasswordChangeChallenge,
} from "./login-result.ts";
import { newMfaToken } from "./mfa-token.ts";
import { insertPasswordChange } from "./password-change-store.ts";
import { type LoginOrigin, rememberDevice } from "./remember-device.ts";
import { readTrust, settleTrust, sparesCode, trustDaysFor } from "./trust-device.ts";

export interface ProvenUser {
  user: Account;
  /** RFC 8176: `pwd`, the unregistered `fed` of a provider or a passkey's, then the second factor. */
  amr: readonly string[];
  authTime: Date;
  /** The user wants this device to be trusted. Only beside a second factor. */
  trustDevice?: boolean;
}

interface Completion extends ProvenUser {
  /** The refusal if the user's sessions ended meanwhile. */
  ifEnded: ErrorCode;
}

/** Begins the session or asks for a missing step. @throws {DomainError} `ifEnded` if sessions ended meanwhile, `role_not_defined`. */
export async function completeLogin(
  deps: LoginDeps,
  proven: Completion,
  origin: LoginOrigin,
  context: CallContext,
): Promise<LoginResult> {
  const { user, amr, authTime, ifEnded } = proven;
  const { sessionEpoch } = user;
  const device = origin.device ?? (await knownDevice(deps, origin.deviceToken, user.email));
  const trust = await readTrust(deps, user, device, context);
  const isCodeMissing = user.mfaEnabled && !amr.includes("mfa");
  const isCodeSpared = isCodeMissing && (await sparesCode(deps, user, trust, origin));
  if (isCodeMissing && !isCodeSpared) return askForCode(deps, proven, origin);
  if (!deps.access.isDefined(user.role)) throw new DomainError("role_not_defined");
  // A provider and a passkey have not used the password.
  if (user.mustChangePassword && amr.includes("pwd")) {
    return beginPasswordChange(deps, { userId: user.id, sessionEpoch, amr });
  }
  // A login with a passkey alone has two factors.
  if (!user.mfaEnabled && !amr.includes("mfa") && isMfaRequired(deps, user)) {
    return beginEnrollment(deps, { userId: user.id, sessionEpoch, amr });
  }
  const { clientIp, userAgent } = origin;
  const { id: userId, role } = user;
  const limits = deps.access.sessionLimits(role);
  const session = { userId, role, amr, acr: levelOf(amr), authTime, limits, clientIp, userAgent };
  const tokens = await beginSession(deps, session, sessionEpoch, context);
  if (tokens === undefined) throw new DomainError(ifEnded);
  const deviceToken = await rememberDevice(deps, { ...origin, device, user });
  const isWanted = proven.trustDevice === true && amr.includes("mfa");
  const step = { user, deviceToken, trust, isWanted, isCodeSpared, clientIp, userAgent };
  const trustedToken = await settleTrust(deps, step, context);
  if (isCodeSpared && trustedToken === undefined) {
    // The trust was taken back, or used by another login, while this one began.
    const { sessionId } = tokens;
    await deps.tokenService.revokeSession({ sessionId, userId: user.id, reason: "trust_ended" }, context);
    return askForCode(deps, proven, origin);
  }
  return { kind: "completed", tokens, user, deviceToken: trustedToken ?? deviceToken };
}

/** The challenge ends after `MFA_CHALLENGE_TTL_S`, five attempts or a session end. */
async function beginPasswordChange(
  deps: LoginDeps,
  login: Pick<NewLoginStep, "userId" | "sessionEpoch" | "amr">,
): Promise<PasswordChangeChallenge> {
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  await insertPasswordChange(deps.sql, { ...login, tokenHash, createdAt, expiresAt });
  return { kind: "passwordChange", tempToken, userId: login.userId };
}

function askForCode(deps: LoginDeps, { user, amr }: ProvenUser, origin: LoginOrigin): Promise<MfaChallenge> {
  const firstFactor = amr.includes("fed") ? "fed" : "pwd";
  const trustDeviceDays = trustDaysFor(deps, user);
  return beginMfaChallenge(deps, { user, firstFactor, trustDeviceDays }, origin);
}

/** Passkeys are used with user verification only. */
function levelOf(amr: readonly string[]): AssuranceLevel {
  return amr.includes("hwk") || amr.includes("swk") ? 3 : levelFromAmr(amr);
}

/** Undefined if sessions ended since `epoch`. */
async function beginSession(
  deps: Pick<LoginDeps, "sql" | "tokenService" | "now">,
  session: NewSession,
  epoch: number,
  context: CallContext,
): Promise<SessionTokens | undefined> {
  const tokens = await deps.tokenService.issueSession(session, context);
  const { userId } = session;
  // After the session exists, so that a later session end includes it.
  if (await noteLogin(deps.sql, { userId, epoch, at: deps.now() })) return tokens;
  // For a deleted account, token-service erases the origin too.
  const isDeleted = (await findAccountById(deps.sql, userId)) === undefined;
  const reason = isDeleted ? "account_deleted" : "credentials_changed";
  await deps.tokenService.revokeSession({ sessionId: tokens.sessionId, userId, reason }, context);
  return undefined;
}

/** In the order in which clients should offer them. */
const ENROLLMENT_METHODS = ["totp", "passkey"] as const;

/** Time to install an authenticator app. */
const ENROLLMENT_TTL_MS = 15 * 60_000;

/** The challenge ends after 15 minutes, ten attempts or a session end. */
async function beginEnrollment(
  deps: LoginDeps,
  login: Pick<NewLoginStep, "userId" | "sessionEpoch" | "amr">,
): Promise<MfaEnrollmentChallenge> {
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + ENROLLMENT_TTL_MS);
  await insertEnrollment(deps.sql, { ...login, tokenHash, createdAt, expiresAt });
  return { kind: "mfaEnrollment", tempToken, methods: ENROLLMENT_METHODS, userId: login.userId };
}

/** The challenge ends after `MFA_CHALLENGE_TTL_S`, five attempts or a session end. */
export async function beginMfaChallenge(
  deps: LoginDeps,
  login: {
    user: Pick<Account, "id" | "sessionEpoch" | "hasTotp" | "passkeyCount" | "mfaEnabled">;
    firstFactor: FirstFactor;
    trustDeviceDays?: number | undefined;
  },
  origin: ClientOrigin,
): Promise<MfaChallenge> {
  const { user, firstFactor, trustDeviceDays } = login;
  const { id: userId, sessionEpoch } = user;
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  const challenge = { tokenHash, userId, firstFactor, sessionEpoch, createdAt, expiresAt };
  await insertMfaChallenge(deps.sql, { ...challenge, ...storableOrigin(origin) });
  const ceremony = { purpose: "second_factor", boundTo: tokenHash, user } as const;
  const passkey = await beginPasskeyCeremony(deps.sql, deps, ceremony);
  const methods = secondFactorsOf(user);
  return { kind: "mfaChallenge", tempToken, methods, passkey, userId, trustDeviceDays };
}
