import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { openLink, useLink } from "../mail/use-link.ts";
import { type LinkReader, proveReader } from "../passwords/prove-owner.ts";
import { isStill } from "../passwords/reauthenticate.ts";
import { clearGuesses } from "../throttle/throttle.ts";
import type { Account } from "../users/account.ts";
import { setCredentialsProven, setEmailVerified } from "../users/account-store.ts";
import { getAccount } from "../users/get-account.ts";
import type { AccountsDeps } from "./accounts-deps.ts";

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
