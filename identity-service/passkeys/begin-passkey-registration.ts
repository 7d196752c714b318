import { createHash } from "node:crypto";
import {
  generateRegistrationOptions,
  type PublicKeyCredentialCreationOptionsJSON,
} from "@simplewebauthn/server";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { assertOwner, type Owner } from "../passwords/prove-owner.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { fullName } from "../users/personal-name.ts";
import { CHALLENGE_LIFETIME_MS, describeCredential, keepChallenge } from "./passkey-ceremony.ts";
import { listPasskeys } from "./passkey-store.ts";
import type { PasskeyDeps } from "./passkeys-deps.ts";
import { userHandleOf } from "./user-handle.ts";
import { PASSKEY_ALGORITHMS } from "./verify-attestation.ts";

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
export function sessionBinding(sessionId: string): Buffer {
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
