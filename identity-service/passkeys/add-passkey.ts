import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { giveFirstRecoveryCodes } from "../mfa/give-recovery-codes.ts";
import { owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { MAX_PASSKEYS_OF_USER } from "./begin-passkey-registration.ts";
import { challengeOf, hashOfChallenge } from "./client-data.ts";
import { takePasskeyChallenge } from "./passkey-challenge-store.ts";
import { recordPasskeyAdded } from "./passkey-notice.ts";
import { insertPasskey, listPasskeys, type Passkey } from "./passkey-store.ts";
import type { PasskeyDeps } from "./passkeys-deps.ts";
import { type Attestation, type AttestedCredential, verifyAttestation } from "./verify-attestation.ts";

export interface NewCredential extends ClientOrigin {
  user: Locked<Account>;
  /** As the registration began. */
  boundTo: Buffer;
  name: string;
  attestation: Attestation;
  exceptSessionId?: string;
}

export interface AddedPasskey {
  passkey: Passkey;
  /** Of the first second factor. Never logged. */
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
  const credential = await takeCredential(tx, deps, user, answer);
  if (credential === undefined) return undefined;
  if ((await listPasskeys(tx, user.id)).length >= MAX_PASSKEYS_OF_USER) throw new DomainError("conflict");
  const { id: userId } = user;
  const passkey = { id: deps.newId(), userId, name, createdAt: deps.now(), ...credential };
  // Another user's, too: the answer does not say it.
  if (!(await insertPasskey(tx, passkey))) return undefined;
  // First, so that the codes are not older than the link that takes them back.
  await recordPasskeyAdded(tx, deps, { user, from: answer }, context);
  const recoveryCodes = await giveFirstRecoveryCodes(tx, deps, user);
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
  user: Locked<Account>,
  { boundTo, attestation }: Pick<NewCredential, "boundTo" | "attestation">,
): Promise<AttestedCredential | undefined> {
  const challenge = challengeOf(attestation.clientDataJson);
  if (challenge === undefined) return undefined;
  const binding = { purpose: "registration", boundTo, user } as const;
  const taken = { ...binding, challengeHash: hashOfChallenge(challenge), now: deps.now() };
  const isOpen = await takePasskeyChallenge(tx, taken);
  return isOpen ? verifyAttestation(deps.passkeyParty, attestation, challenge) : undefined;
}
