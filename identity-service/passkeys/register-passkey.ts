import { createHash } from "node:crypto";
import type { PublicKeyCredentialCreationOptionsJSON } from "@simplewebauthn/server";
import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { settleFirstFactor } from "../mfa/give-recovery-codes.ts";
import { assertOwner, type Owner } from "../passwords/prove-owner.ts";
import { endSessionsSoon, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { findAccountById, lockAccountForMfa } from "../users/account-store.ts";
import { fullName } from "../users/personal-name.ts";
import { passkeyName } from "./own-passkeys.ts";
import {
  CHALLENGE_LIFETIME_MS,
  challengeOf,
  describeCredential,
  hashOfChallenge,
  keepChallenge,
  type PasskeyDeps,
} from "./passkey-ceremony.ts";
import { takePasskeyChallenge } from "./passkey-challenge-store.ts";
import { recordPasskeyAdded } from "./passkey-notice.ts";
import { insertPasskey, listPasskeys, type Passkey } from "./passkey-store.ts";
import { userHandleOf } from "./verify-assertion.ts";
import {
  type Attestation,
  type AttestedCredential,
  PASSKEY_ALGORITHMS,
  verifyAttestation,
} from "./verify-attestation.ts";

export const MAX_PASSKEYS_OF_USER = 20;

/**
 * The options for `navigator.credentials.create`. Requires proven credentials, so that a registration cannot lock the
 * owner of its address out.
 * @throws {DomainError} `step_up_required`, `email_not_verified`, `conflict` beyond 20.
 */
export async function beginPasskeyRegistration(
  deps: PasskeyDeps & { sql: Sql },
  owner: Owner,
): Promise<PublicKeyCredentialCreationOptionsJSON> {
  const account = await findAccountById(deps.sql, owner.userId);
  if (account?.status !== "active") throw new DomainError("token_invalid");
  assertOwner(deps, "beginPasskey", owner, account);
  if (account.credentialsProvenAt === null) throw new DomainError("email_not_verified");
  return creationOptions(deps.sql, deps, account, sessionBinding(owner.sessionId));
}

/** To what a registration's challenge is bound. */
function sessionBinding(sessionId: string): Buffer {
  return createHash("sha256").update(sessionId).digest();
}

/** @param boundTo with what the answer has to come. @throws {DomainError} `conflict` beyond 20. */
export async function creationOptions(
  sql: Sql | TransactionSql,
  deps: PasskeyDeps,
  account: Account,
  boundTo: Buffer,
): Promise<PublicKeyCredentialCreationOptionsJSON> {
  const existing = await listPasskeys(sql, account.id);
  if (existing.length >= MAX_PASSKEYS_OF_USER) throw new DomainError("conflict");
  const challenge = await keepChallenge(sql, deps, { purpose: "registration", boundTo, user: account });
  const { generateRegistrationOptions } = await import("@simplewebauthn/server");
  return generateRegistrationOptions({
    rpName: deps.passkeyParty.name,
    rpID: deps.passkeyParty.id,
    userName: account.email,
    userDisplayName: fullName(account),
    userID: new Uint8Array(userHandleOf(account.id)),
    challenge: new Uint8Array(challenge),
    timeout: CHALLENGE_LIFETIME_MS,
    attestationType: "none",
    excludeCredentials: existing.map(describeCredential),
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
    supportedAlgorithmIDs: PASSKEY_ALGORITHMS,
  });
}

interface PasskeyRegistration {
  owner: Owner;
  name: string;
  attestation: Attestation;
}

interface RegisteredPasskey {
  passkey: Passkey;
  /** Empty unless it is the first second factor. Never logged. */
  recoveryCodes: string[];
  endedSessionIds: readonly string[];
}

/**
 * Ends the other sessions.
 * @throws {DomainError} `step_up_required`, `passkey_invalid`, `email_not_verified`, `conflict` beyond 20, `validation_failed`.
 */
export async function registerPasskey(
  deps: PasskeyDeps,
  registration: PasskeyRegistration,
  context: CallContext,
): Promise<RegisteredPasskey> {
  const name = passkeyName(registration.name);
  const added = await transaction(deps.sql, (tx) => register(tx, deps, { ...registration, name }, context));
  // After the commit, so that the challenge stays used.
  if (added === undefined) throw new DomainError("passkey_invalid");
  deps.wakeMailWorker();
  const { passkey, recoveryCodes, end } = added;
  const endedSessionIds = await endSessionsSoon(deps, end, context);
  return { passkey, recoveryCodes, endedSessionIds };
}

/** Undefined for a refused answer. */
async function register(
  tx: TransactionSql,
  deps: PasskeyDeps,
  { owner, name, attestation }: PasskeyRegistration,
  context: CallContext,
): Promise<AddedPasskey | undefined> {
  const { userId, sessionId: exceptSessionId, clientIp, userAgent } = owner;
  const user = await lockAccountForMfa(tx, userId);
  if (user?.status !== "active") return undefined;
  assertOwner(deps, "addPasskey", owner, user);
  // May have been revoked since.
  if (user.credentialsProvenAt === null) throw new DomainError("email_not_verified");
  const boundTo = sessionBinding(exceptSessionId);
  const credential = { user, boundTo, name, attestation, exceptSessionId, clientIp, userAgent };
  return addPasskey(tx, deps, credential, context);
}

interface NewCredential extends ClientOrigin {
  user: Locked<Account>;
  /** As the registration began. */
  boundTo: Buffer;
  name: string;
  attestation: Attestation;
  exceptSessionId?: string;
}

export interface AddedPasskey {
  passkey: Passkey;
  /** They come with the first second factor. Never logged. */
  recoveryCodes: string[];
  /** For `endSessions`. */
  end: SessionEnd;
}

/**
 * Uses the challenge up, whatever the answer is worth. Undefined for a refused answer: commit it.
 * @throws {DomainError} `conflict` beyond 20.
 */
export async function addPasskey(
  tx: TransactionSql,
  deps: PasskeyDeps,
  { name, exceptSessionId, ...answer }: NewCredential,
  context: CallContext,
): Promise<AddedPasskey | undefined> {
  const { user } = answer;
  const credential = await takeCredential(tx, deps, answer);
  if (credential === undefined) return undefined;
  if ((await listPasskeys(tx, user.id)).length >= MAX_PASSKEYS_OF_USER) throw new DomainError("conflict");
  const { id: userId } = user;
  const passkey = { id: deps.newId(), userId, name, createdAt: deps.now(), ...credential };
  // Another user's, too: the answer does not say it.
  if (!(await insertPasskey(tx, passkey))) return undefined;
  // First, so that the codes are not older than the link that takes them back.
  await recordPasskeyAdded(tx, deps, { user, from: answer }, context);
  const recoveryCodes = await settleFirstFactor(tx, deps, user);
  const end = await owesSessionEnd(tx, deps, {
    userId,
    reason: "passkey_added",
    ...(exceptSessionId !== undefined && { exceptSessionId }),
  });
  return { passkey: { ...passkey, lastUsedAt: null }, recoveryCodes, end };
}

async function takeCredential(
  tx: TransactionSql,
  deps: PasskeyDeps,
  { user, boundTo, attestation }: Pick<NewCredential, "user" | "boundTo" | "attestation">,
): Promise<AttestedCredential | undefined> {
  const challenge = challengeOf(attestation.clientDataJson);
  if (challenge === undefined) return undefined;
  const binding = { purpose: "registration", boundTo, user } as const;
  const taken = { ...binding, challengeHash: hashOfChallenge(challenge), now: deps.now() };
  const isOpen = await takePasskeyChallenge(tx, taken);
  return isOpen ? verifyAttestation(deps.passkeyParty, attestation, challenge) : undefined;
}
