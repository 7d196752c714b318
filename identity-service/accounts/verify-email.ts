import type { CallContext } from "../../service-kit/call-context.ts";
import { tellAudit } from "../audit/tell-audit.ts";
import { openLink, useLink } from "../mail/use-link.ts";
import { clearGuesses } from "../throttle/throttle.ts";
import { setCredentialsProven, setEmailVerified } from "../users/account-store.ts";
import { getUser } from "../users/get-user.ts";
import type { User } from "../users/user.ts";
import type { AccountsDeps } from "./accounts-deps.ts";
import { assertStillShown, type ProvenLink, showCredentials } from "./link-proof.ts";

/**
 * Credentials count as proven only with the session or password as well, because anyone can register any address.
 * @throws {DomainError} `verification_token_invalid`; `invalid_credentials`, which leaves the link usable.
 */
export async function verifyEmail(
  deps: AccountsDeps,
  request: ProvenLink,
  context: CallContext,
): Promise<User> {
  const link = await openLink(deps, "verify_email", request.token);
  const shown = await showCredentials(deps, link, request, context.deadlineMs);
  await useLink(deps, "verify_email", link, async (tx, account) => {
    const { id: userId } = account;
    if (shown === undefined) {
      await setEmailVerified(tx, userId, deps.now());
    } else {
      assertStillShown(shown, account);
      await setCredentialsProven(tx, userId, deps.now());
    }
    const reason = shown === undefined ? "by the link alone" : "with the credentials";
    const { clientIp } = request;
    await tellAudit(tx, deps, { type: "email_verified", userId, byOwner: true, reason, clientIp }, context);
  });
  const user = await getUser(deps, link.userId);
  await clearGuesses(deps.throttle, { userId: user.id, email: user.email });
  return user;
}
