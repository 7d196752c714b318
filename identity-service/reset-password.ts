import type { CallContext } from "../service-kit/call-context.ts";
import { orUnavailable } from "../service-kit/postgres.ts";
import { findAccountById, setEmailVerified } from "./account-store.ts";
import { type EndSessionsDeps, endSessions } from "./end-sessions.ts";
import { deleteIdentitiesSince } from "./external-identity-store.ts";
import { type HashNewPasswordDeps, hashNewPassword } from "./hash-new-password.ts";
import { checkPassword, type PasswordPolicy, refuseBreached } from "./password-policy.ts";
import { replacePassword } from "./replace-password.ts";
import { clearGuesses, spendOrRefuse, type Throttle } from "./throttle.ts";
import { linkRefused, openLink, type UseLinkDeps, useLink } from "./use-link.ts";

export interface ResetPasswordDeps extends UseLinkDeps, EndSessionsDeps, HashNewPasswordDeps {
  passwordPolicy: PasswordPolicy;
  throttle: Pick<Throttle, "spend" | "clear">;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/** Sessions that a change has ended. */
export interface EndedSessions {
  userId: string;
  sessionIds: readonly string[];
}

/**
 * Sets a new password by the link that was mailed, which proves the address too. A refused password leaves the link
 * usable. Every session of the user has ended when this resolves; a second factor stays.
 *
 * @throws {DomainError} `reset_token_invalid`, `password_too_short`, `password_too_common`, `password_contains_email`,
 *   `password_unchanged` where the password must be changed, `validation_failed`, `too_many_requests`, `busy`;
 *   `service_unavailable`, after which the password may have changed and sessions end
 *   when token-service is back.
 */
export async function resetPassword(
  deps: ResetPasswordDeps,
  request: { token: string; newPassword: string; clientIp?: string },
  context: CallContext,
): Promise<EndedSessions> {
  await spendOrRefuse(deps.throttle, { kind: "reset_password", clientIp: request.clientIp });
  const link = await orUnavailable(openLink(deps, "reset_password", request.token));
  const account = await orUnavailable(findAccountById(deps.sql, link.userId));
  if (account === undefined) throw linkRefused("reset_password");
  checkPassword(deps.passwordPolicy, request.newPassword, account.email, "newPassword");
  await refuseBreached(deps.passwordPolicy, request.newPassword);
  const { newPassword, clientIp = "" } = request;
  const next = { ...account, userId: account.id, newPassword, clientIp };
  const passwordHash = await hashNewPassword(deps, next, context.deadlineMs);
  const end = await orUnavailable(
    useLink(deps, "reset_password", link, async (tx, locked) => {
      // Who linked a provider before anybody proved the address may not be who reads its mail.
      if (!locked.emailVerified) await deleteIdentitiesSince(tx, locked.id, new Date(0));
      // Who has the link reads the mail of the address.
      await setEmailVerified(tx, locked.id, deps.now());
      return replacePassword(tx, deps, locked, { passwordHash, reason: "password_reset", clientIp }, context);
    }),
  );
  deps.wakeMailWorker();
  await clearGuesses(deps.throttle, { userId: account.id, email: account.email });
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}
