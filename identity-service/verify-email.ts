import { orUnavailable } from "../service-kit/postgres.ts";
import { setEmailVerified } from "./account-store.ts";
import { getUser } from "./get-user.ts";
import { openLink, type UseLinkDeps, useLink } from "./use-link.ts";
import type { User } from "./user.ts";

/**
 * Proves a user's address by the link that was mailed to it.
 *
 * @throws {DomainError} `verification_token_invalid`, `service_unavailable`.
 */
export async function verifyEmail(deps: UseLinkDeps, token: string): Promise<User> {
  const link = await orUnavailable(openLink(deps, "verify_email", token));
  await orUnavailable(
    useLink(deps, "verify_email", link, (tx, account) => setEmailVerified(tx, account.id, deps.now())),
  );
  return getUser(deps, link.userId);
}
