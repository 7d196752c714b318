import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import type { SessionTokens } from "../sessions/token-service-client.ts";
import { lockAccount, lockAccountByEmail } from "../users/account-store.ts";
import { needsVerifiedEmail } from "../users/can-log-in.ts";
import { completeLogin } from "./complete-login.ts";
import type { LoginDeps } from "./login-deps.ts";

/** As after a login with a password, with a second factor, and with a passkey. */
const AMR: Readonly<Record<number, readonly string[]>> = {
  1: ["pwd"],
  2: ["pwd", "otp", "mfa"],
  3: ["hwk", "user", "mfa"],
};
const ORIGIN = { clientIp: "127.0.0.1", userAgent: "gatehouse sessions issue", deviceToken: "" };

/**
 * A login without its proof, for tests (`TEST_LOGINS`). Everything else is as in any login, its refusals too.
 * @param request.level 0: the user's own. @throws {DomainError} `forbidden`, `not_found`, `validation_failed`, `conflict`.
 */
export async function logInAs(
  deps: LoginDeps,
  { user: named, level }: { user: string; level: number },
  context: CallContext,
): Promise<SessionTokens> {
  if (context.person === undefined) throw new DomainError("forbidden");
  if (level !== 0 && AMR[level] === undefined)
    throw new DomainError("validation_failed", "the level is 1, 2 or 3");
  const user = await transaction(deps.sql, async (tx) => {
    const account = isUuid(named)
      ? await lockAccount(tx, named)
      : await lockAccountByEmail(tx, canonicalEmail(named) ?? named);
    if (account === undefined) throw new DomainError("not_found");
    await recordAudit(tx, deps, { type: "test_login_asked", userId: account.id, ...ORIGIN }, context);
    return account;
  });
  if (user.status !== "active") throw new DomainError("conflict", "The user is disabled");
  if ((await deps.throttle.lockedUntil(user.email)) !== undefined)
    throw new DomainError("conflict", "Wrong passwords have locked the user: gatehouse users unlock");
  if (needsVerifiedEmail(deps, user)) throw new DomainError("conflict", "The user's address is not verified");
  const amr = AMR[level || (user.mfaEnabled ? 2 : 1)] ?? [];
  const proven = { user, amr, authTime: deps.now(), ifEnded: "conflict" } as const;
  const result = await completeLogin(deps, proven, ORIGIN, context);
  if (result.kind !== "completed") throw new DomainError("conflict", MISSING[result.kind]);
  return result.tokens;
}

const MISSING = {
  mfaChallenge: "The user has a second factor: ask for level 2 or 3",
  mfaEnrollment: "The user's role demands a second factor: ask for level 2 or 3",
  passwordChange: "The user must change the password first",
} as const;
