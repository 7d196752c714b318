import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { languageTag } from "#kit/values/locale.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { findIdentityUser, insertIdentity } from "../identities/external-identity-store.ts";
import { claimAccount } from "../ownership/claim-account.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account, Locked } from "../users/account.ts";
import {
  findAccountByEmail,
  findAccountById,
  lockAccount,
  setCredentialsProven,
} from "../users/account-store.ts";
import { insertUser, lockAddresses } from "../users/user-store.ts";
import type { OAuthDeps } from "./begin-oauth-login.ts";
import { type ExternalPerson, loggedInAt } from "./external-person.ts";
import { recordIdentityChange } from "./record-identity-change.ts";
import type { RelyingParty } from "./relying-party.ts";

export interface Arrival extends ClientOrigin {
  party: Pick<RelyingParty, "name" | "displayName" | "issuer">;
  person: ExternalPerson;
  /** Of the browser, for a person of whom the provider names none. May be empty. */
  language: string;
}

export interface OpenedAccount {
  account: Account;
  end: SessionEnd | undefined;
}

/**
 * Finds the linked account, else links the one with the same verified address, else makes one. Removes unproven
 * credentials and sessions. Never links or claims privileged accounts.
 * @throws {DomainError} `link_required`, `email_not_verified`, `oauth_failed`.
 */
export async function openAccount(
  deps: OAuthDeps,
  arrival: Arrival,
  context: CallContext,
): Promise<OpenedAccount> {
  const open = () => transaction(deps.sql, (tx) => findOrMake(tx, deps, arrival, context));
  const opened = (await open()) ?? (await open());
  if (opened === undefined) throw new DomainError("service_unavailable");
  if (opened.account.status !== "active") throw new DomainError("oauth_failed");
  return opened;
}

/** Undefined if the identity was linked during the wait for a lock: locking its account could deadlock. */
async function findOrMake(
  tx: TransactionSql,
  deps: OAuthDeps,
  arrival: Arrival,
  context: CallContext,
): Promise<OpenedAccount | undefined> {
  const linkedTo = await findIdentityUser(tx, keyOf(arrival));
  if (linkedTo !== undefined) return openLinked(tx, deps, { arrival, userId: linkedTo }, context);
  const { email } = arrival.person;
  if (email === undefined) throw new DomainError("oauth_failed", "the provider sent no address");
  // Otherwise, an unverified address would reveal whether it has an account.
  if (!deps.registrationDiscloses && !arrival.person.isEmailVerified) {
    throw new DomainError("email_not_verified");
  }
  const owner = await findAccountByEmail(tx, email);
  // Lock order: the account before the address.
  if (owner !== undefined) return linkByAddress(tx, deps, { arrival, userId: owner.id }, context);
  await lockAddresses(tx, [email]);
  // A concurrent login or registration is visible now.
  if ((await findIdentityUser(tx, keyOf(arrival))) !== undefined) return undefined;
  return { account: await makeAccount(tx, deps, { arrival, email }, context), end: undefined };
}

async function openLinked(
  tx: TransactionSql,
  deps: OAuthDeps,
  { arrival, userId }: { arrival: Arrival; userId: string },
  context: CallContext,
): Promise<OpenedAccount> {
  const seen = await findAccountById(tx, userId);
  // Most logins need no lock.
  const owner = seen && isClaimable(deps, seen, arrival) ? await lockAccount(tx, userId) : undefined;
  const isLinked = owner !== undefined && (await findIdentityUser(tx, keyOf(arrival))) === userId;
  const isClaim = isLinked && owner.status === "active" && isClaimable(deps, owner, arrival);
  const end = isClaim ? await claim(tx, deps, { arrival, owner }, context) : undefined;
  const account = await findAccountById(tx, userId);
  // In this order: what unlinks raises the session epoch, so a later one ends the login, and an earlier one shows here.
  if (account === undefined || (await findIdentityUser(tx, keyOf(arrival))) !== userId)
    throw new DomainError("oauth_failed", "the identity was unlinked meanwhile");
  return { account, end };
}

async function linkByAddress(
  tx: TransactionSql,
  deps: OAuthDeps,
  { arrival, userId }: { arrival: Arrival; userId: string },
  context: CallContext,
): Promise<OpenedAccount | undefined> {
  const { person, party } = arrival;
  const owner = await lockAccount(tx, userId);
  // A concurrent login may have linked it.
  if ((await findIdentityUser(tx, keyOf(arrival))) !== undefined) return undefined;
  const isTheirs = owner?.email === person.email && person.isEmailVerified;
  if (owner === undefined || !isTheirs || !isOrdinary(deps, owner)) throw new DomainError("link_required");
  if (owner.status !== "active") throw new DomainError("oauth_failed");
  const end = isClaimable(deps, owner, arrival)
    ? await claim(tx, deps, { arrival, owner }, context)
    : undefined;
  if (!(await link(tx, deps, arrival, userId))) throw new DomainError("link_required");
  if (end === undefined) {
    const { email } = owner;
    const change = { userId, email, provider: party, change: "linked", origin: arrival } as const;
    await recordIdentityChange(tx, deps, change, context);
  } else {
    const { clientIp, userAgent } = arrival;
    const linked = { type: "identity_linked", userId, reason: party.name } as const;
    await recordAudit(tx, deps, { ...linked, byOwner: true, clientIp, userAgent }, context);
  }
  return { account: existing(await findAccountById(tx, userId)), end };
}

/** Its own credentials are unproven. */
function isClaimable(deps: OAuthDeps, account: Account, { person }: Arrival): boolean {
  const isTheirs = person.isEmailVerified && account.email === person.email;
  return isTheirs && account.credentialsProvenAt === null && isOrdinary(deps, account);
}

/** Accounts of other roles are neither linked nor claimed without their password. */
function isOrdinary({ access }: OAuthDeps, { role }: Pick<Account, "role">): boolean {
  return role === access.defaultRole;
}

async function claim(
  tx: TransactionSql,
  deps: OAuthDeps,
  { arrival, owner }: { arrival: Arrival; owner: Locked<Account> },
  context: CallContext,
): Promise<SessionEnd> {
  const { clientIp, userAgent, party } = arrival;
  const by = "provider_claim";
  const keptIdentity = keyOf(arrival);
  const how = { by, provider: party, keptIdentity, clientIp, userAgent } as const;
  const { end } = await claimAccount(tx, deps, { account: owner, ...how }, context);
  // Earlier sessions have ended, and the one of this login may be as old as the login at the provider.
  await setCredentialsProven(tx, owner.id, loggedInAt(arrival.person, deps.now()));
  return end;
}

async function makeAccount(
  tx: TransactionSql,
  deps: OAuthDeps,
  { arrival, email }: { arrival: Arrival; email: string },
  context: CallContext,
): Promise<Account> {
  const { firstName, lastName, isEmailVerified: emailVerified } = arrival.person;
  const language = arrival.person.language ?? languageTag(arrival.language) ?? null;
  const id = deps.newId();
  const createdAt = deps.now();
  const facts = { role: deps.access.defaultRole, emailVerified, passwordHash: null } as const;
  const isNew = await insertUser(tx, { id, email, firstName, lastName, language, createdAt, ...facts });
  if (!isNew || !(await link(tx, deps, arrival, id))) throw new DomainError("link_required");
  if (emailVerified) await setCredentialsProven(tx, id, loggedInAt(arrival.person, createdAt));
  const { clientIp, userAgent, party } = arrival;
  const made = { userId: id, byOwner: true, reason: party.name, clientIp, userAgent } as const;
  await recordAudit(tx, deps, { type: "user_registered", ...made }, context);
  await recordAudit(tx, deps, { type: "identity_linked", ...made }, context);
  return existing(await findAccountById(tx, id));
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
  if (account === undefined) throw new Error("the account of this transaction is missing");
  return account;
}
