import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { endSessionsOfMfaChange } from "../mfa/end-sessions-of-mfa-change.ts";
import { assertOwner, type Owner } from "../passwords/prove-owner.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { type AddedPasskey, addPasskey } from "./add-passkey.ts";
import { sessionBinding } from "./begin-passkey-registration.ts";
import { passkeyName } from "./own-passkeys.ts";
import type { Passkey } from "./passkey-store.ts";
import type { PasskeyDeps } from "./passkeys-deps.ts";
import type { Attestation } from "./verify-attestation.ts";

export interface PasskeyRegistration {
  owner: Owner;
  name: string;
  attestation: Attestation;
}

export interface RegisteredPasskey {
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
  const endedSessionIds = await endSessionsOfMfaChange(deps, end, context);
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
