import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { linkRefused, openLink, useLink } from "../mail/use-link.ts";
import { claimAccount } from "../ownership/claim-account.ts";
import { type LinkReader, proveReader } from "../passwords/prove-owner.ts";
import { isStill } from "../passwords/reauthenticate.ts";
import { type EndedSessions, endSessions } from "../sessions/end-sessions.ts";
import { clearGuesses } from "../throttle/throttle.ts";
import type { Account } from "../users/account.ts";
import { setCredentialsProven, setEmailVerified } from "../users/account-store.ts";
import { getAccount } from "../users/get-account.ts";
import type { AccountsDeps } from "./register.ts";

/**
 * Without session or password the credentials stay unproven, because anyone can register any address.
 * @throws {DomainError} `verification_token_invalid`; `invalid_credentials`, which leaves the link usable.
 */
export async function verifyEmail(
  deps: AccountsDeps,
  request: LinkReader,
  context: CallContext,
): Promise<Account> {
  const link = await openLink(deps, "verify_email", request.token);
  const shown = await proveReader(deps, link, request, context.deadlineMs);
  await useLink(deps, "verify_email", link, async (tx, account) => {
    const { id: userId } = account;
    if (shown === undefined) {
      await setEmailVerified(tx, userId, deps.now());
    } else {
      if (!isStill(shown, account)) throw new DomainError("invalid_credentials");
      await setCredentialsProven(tx, userId, deps.now());
    }
    const reason = shown === undefined ? "by the link alone" : "with the credentials";
    const { clientIp } = request;
    await recordAudit(tx, deps, { type: "email_verified", userId, byOwner: true, reason, clientIp }, context);
  });
  const verified = await getAccount(deps, link.userId);
  await clearGuesses(deps.throttle, verified);
  return verified;
}

/**
 * Refused for proven credentials: a link alone must not remove a second factor.
 * @throws {DomainError} `verification_token_invalid`.
 */
export async function disownAccount(
  deps: AccountsDeps,
  request: ClientOrigin & { token: string },
  context: CallContext,
): Promise<EndedSessions> {
  const { token, clientIp, userAgent } = request;
  const link = await openLink(deps, "verify_email", token);
  const { end } = await useLink(deps, "verify_email", link, (tx, account) => {
    if (account.credentialsProvenAt !== null) throw linkRefused("verify_email");
    return claimAccount(tx, deps, { account, by: "account_disowned", clientIp, userAgent }, context);
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}
