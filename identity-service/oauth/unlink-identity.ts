import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  deleteIdentity,
  type LinkedIdentity,
  listIdentities,
} from "../identities/external-identity-store.ts";
import { listPasskeys } from "../passkeys/passkey-store.ts";
import { type PasswordOwner, proveOwner } from "../passwords/prove-owner.ts";
import { isStill } from "../passwords/reauthenticate.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account } from "../users/account.ts";
import { lockAccount } from "../users/account-store.ts";
import type { OAuthDeps } from "./begin-oauth-login.ts";
import { recordIdentityChange } from "./record-identity-change.ts";

/** Ends the other sessions, which may have begun with it. @throws {DomainError} `not_found`, `last_credential`. */
export async function unlinkIdentity(
  deps: OAuthDeps,
  { owner, provider }: { owner: PasswordOwner; provider: string },
  context: CallContext,
): Promise<readonly string[]> {
  const checked = await proveOwner(deps, "unlinkIdentity", owner, context.deadlineMs);
  const end = await transaction(deps.sql, (tx) => unlink(tx, deps, { owner, provider, checked }, context));
  deps.wakeMailWorker();
  return endSessions(deps, end, context);
}

async function unlink(
  tx: TransactionSql,
  deps: OAuthDeps,
  { owner, provider, checked }: { owner: PasswordOwner; provider: string; checked: Account },
  context: CallContext,
): Promise<SessionEnd> {
  const { userId, sessionId: exceptSessionId } = owner;
  const account = await lockAccount(tx, userId);
  if (!isStill(checked, account)) throw new DomainError("invalid_credentials");
  const identities = await listIdentities(tx, userId);
  if (!identities.some((identity) => identity.provider === provider)) throw new DomainError("not_found");
  const isLast = account.passwordHash === null && identities.length === 1;
  if (isLast && (await listPasskeys(tx, userId)).length === 0) throw new DomainError("last_credential");
  await deleteIdentity(tx, { userId, provider });
  // The provider may no longer be configured.
  const named = deps.relyingParties.get(provider) ?? { name: provider, displayName: provider };
  const change = { userId, email: account.email, provider: named, change: "unlinked" } as const;
  await recordIdentityChange(tx, deps, { ...change, origin: owner }, context);
  return owesSessionEnd(tx, deps, { userId, exceptSessionId, reason: "identity_unlinked" });
}

export function listLinkedIdentities(deps: { sql: Sql }, userId: string): Promise<LinkedIdentity[]> {
  return listIdentities(deps.sql, userId);
}
