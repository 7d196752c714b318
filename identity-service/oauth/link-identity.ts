import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  findIdentityUser,
  insertIdentity,
  type LinkedIdentity,
} from "../identities/external-identity-store.ts";
import { lockAccount } from "../users/account-store.ts";
import type { OAuthDeps } from "./begin-oauth-login.ts";
import { type Arrival, keyOf } from "./open-account.ts";
import { recordIdentityChange } from "./record-identity-change.ts";

interface Linking {
  arrival: Arrival;
  /** The account, as it was when the flow began. */
  userId: string;
  sessionEpoch: number;
}

/**
 * The addresses may differ. A new session epoch cancels the link.
 * @throws {DomainError} `already_linked`, `email_not_verified`, `oauth_failed`.
 */
export async function linkIdentity(
  deps: OAuthDeps,
  linking: Linking,
  context: CallContext,
): Promise<LinkedIdentity> {
  const linked = await transaction(deps.sql, (tx) => link(tx, deps, linking, context));
  deps.wakeMailWorker();
  return linked;
}

async function link(
  tx: TransactionSql,
  deps: OAuthDeps,
  { arrival, userId, sessionEpoch }: Linking,
  context: CallContext,
): Promise<LinkedIdentity> {
  const { party, person } = arrival;
  const account = await lockAccount(tx, userId);
  if (account?.status !== "active" || account.sessionEpoch !== sessionEpoch)
    throw new DomainError("oauth_failed");
  if (account.credentialsProvenAt === null) throw new DomainError("email_not_verified");
  const identity = { provider: party.name, email: person.email ?? null, linkedAt: deps.now(), userId };
  const holder = await findIdentityUser(tx, keyOf(arrival));
  if (holder === userId) return identity;
  const isLinked = holder === undefined && (await insertIdentity(tx, { ...keyOf(arrival), ...identity }));
  if (!isLinked) throw new DomainError("already_linked");
  const { email } = account;
  const change = { userId, email, provider: party, change: "linked", origin: arrival } as const;
  await recordIdentityChange(tx, deps, change, context);
  return identity;
}
