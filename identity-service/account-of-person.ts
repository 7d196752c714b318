import type { CallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import { type TransactionSql, transaction } from "../service-kit/postgres.ts";
import { lockAccount } from "./account-store.ts";
import { findIdentityUser, insertIdentity } from "./external-identity-store.ts";
import type { ExternalPerson } from "./external-person.ts";
import type { CallOrigin, OAuthDeps } from "./oauth-deps.ts";
import type { RelyingParty } from "./relying-party.ts";
import { tellAudit } from "./tell-audit.ts";
import { tellIdentityChange } from "./tell-identity-change.ts";
import { type Account, findAccount, findAccountOfUser, insertUser, lockAddresses } from "./user-store.ts";

/** A person, as a provider proved them, on their way in. */
export interface Arrival extends CallOrigin {
  party: Pick<RelyingParty, "name" | "displayName" | "issuer">;
  person: ExternalPerson;
}

/**
 * The account that a person's own at a provider opens. Whose it is was decided when it was linked: the address that the
 * provider tells today moves nothing. The first time it gets an account: a new one, or the one with the same address
 * if both sides have checked that the address is theirs.
 *
 * @throws {DomainError} `link_required` if there is an account that it must not get; `oauth_failed` if the account may
 *   not log in, or the provider tells no address for a new one.
 */
export async function accountOfPerson(
  deps: OAuthDeps,
  arrival: Arrival,
  context: CallContext,
): Promise<Account> {
  const account = (await transaction(deps.sql, (tx) => findOrMake(tx, deps, arrival, context))) as Account;
  if (account.status !== "active") throw new DomainError("oauth_failed");
  return account;
}

async function findOrMake(
  tx: TransactionSql,
  deps: OAuthDeps,
  arrival: Arrival,
  context: CallContext,
): Promise<Account> {
  const linked = await linkedAccount(tx, arrival);
  if (linked !== undefined) return linked;
  const { email } = arrival.person;
  if (email === undefined) throw new DomainError("oauth_failed", "the provider tells no address");
  const owner = await findAccount(tx, email);
  // The account's lock comes before the address's, as everywhere.
  if (owner !== undefined) return linkByAddress(tx, deps, arrival, owner.user.id, context);
  await lockAddresses(tx, [email]);
  // Whoever came first is seen now: the same person in another tab, or a registration.
  const same = await linkedAccount(tx, arrival);
  if (same !== undefined) return same;
  return makeAccount(tx, deps, arrival, email, context);
}

async function linkedAccount(tx: TransactionSql, arrival: Arrival): Promise<Account | undefined> {
  const userId = await findIdentityUser(tx, keyOf(arrival));
  return userId === undefined ? undefined : findAccountOfUser(tx, userId);
}

/** A side that has not checked the address may be somebody else's: an account made in wait for its owner, say. */
async function linkByAddress(
  tx: TransactionSql,
  deps: OAuthDeps,
  arrival: Arrival,
  userId: string,
  context: CallContext,
): Promise<Account> {
  const { person, party } = arrival;
  const owner = await lockAccount(tx, userId);
  // The same person in another tab may have been first.
  const same = await linkedAccount(tx, arrival);
  if (same !== undefined) return same;
  const isTheirs = owner?.email === person.email && owner?.emailVerified === true && person.isEmailVerified;
  if (owner === undefined || !isTheirs) throw new DomainError("link_required");
  if (!owner.isActive) throw new DomainError("oauth_failed");
  if (!(await link(tx, deps, arrival, userId))) throw new DomainError("link_required");
  const change = { userId, email: owner.email, provider: party, change: "linked" } as const;
  await tellIdentityChange(tx, deps, change, arrival, context);
  return existing(await findAccountOfUser(tx, userId));
}

async function makeAccount(
  tx: TransactionSql,
  deps: OAuthDeps,
  arrival: Arrival,
  email: string,
  context: CallContext,
): Promise<Account> {
  const { firstName, lastName, isEmailVerified: emailVerified } = arrival.person;
  const names = { firstName, lastName };
  const id = deps.newId();
  const createdAt = deps.now();
  const facts = { role: "USER", emailVerified, mfaEnabled: false, passwordHash: null } as const;
  const isNew = await insertUser(tx, { id, email, ...names, createdAt, ...facts });
  if (!isNew || !(await link(tx, deps, arrival, id))) throw new DomainError("link_required");
  const { clientIp, userAgent, party } = arrival;
  const made = { userId: id, byOwner: true, reason: party.name, clientIp, userAgent } as const;
  await tellAudit(tx, deps, { type: "user_registered", ...made }, context);
  await tellAudit(tx, deps, { type: "identity_linked", ...made }, context);
  return existing(await findAccountOfUser(tx, id));
}

function link(tx: TransactionSql, deps: OAuthDeps, arrival: Arrival, userId: string): Promise<boolean> {
  const { party, person } = arrival;
  const identity = { provider: party.name, email: person.email ?? null, linkedAt: deps.now(), userId };
  return insertIdentity(tx, { ...keyOf(arrival), ...identity });
}

export function keyOf({ party, person }: Arrival): { issuer: string; subject: string } {
  return { issuer: party.issuer, subject: person.subject };
}

function existing(account: Account | undefined): Account {
  if (account === undefined) throw new Error("the account of this transaction is not there");
  return account;
}
