import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import { deleteTrustsOfUser } from "../throttle/trusted-device-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { MAX_PASSKEYS_OF_USER } from "./begin-passkey-registration.ts";
import { challengeOf, hashOfChallenge } from "./client-data.ts";
import { passkeyName } from "./own-passkeys.ts";
import { takePasskeyChallenge } from "./passkey-challenge-store.ts";
import { tellPasskeyAdded } from "./passkey-notice.ts";
import { type PasskeyOwner, sessionBinding } from "./passkey-owner.ts";
import { insertPasskey, listPasskeys, type Passkey } from "./passkey-store.ts";
import type { PasskeyChangeDeps } from "./passkeys-deps.ts";
import { type Attestation, type AttestedCredential, verifyAttestation } from "./verify-attestation.ts";

export interface PasskeyRegistration {
  owner: PasskeyOwner;
  name: string;
  attestation: Attestation;
}

/** @throws {DomainError} `passkey_invalid`, `email_not_verified`, `conflict` beyond 20, `validation_failed`. */
export async function registerPasskey(
  deps: PasskeyChangeDeps,
  registration: PasskeyRegistration,
  context: CallContext,
): Promise<Passkey> {
  const name = passkeyName(registration.name);
  const passkey = await transaction(deps.sql, (tx) => register(tx, deps, { ...registration, name }, context));
  // After the commit, so that the challenge stays used.
  if (passkey === undefined) throw new DomainError("passkey_invalid");
  deps.wakeMailWorker();
  return passkey;
}

/** Undefined for a refused answer. */
async function register(
  tx: TransactionSql,
  deps: PasskeyChangeDeps,
  { owner, name, attestation }: PasskeyRegistration,
  context: CallContext,
): Promise<Passkey | undefined> {
  const user = await lockAccountForMfa(tx, owner.userId);
  const credential = await takeCredential(tx, deps, user, owner, attestation);
  if (credential === undefined || user === undefined) return undefined;
  // May have been revoked since.
  if (user.credentialsProvenAt === null) throw new DomainError("email_not_verified");
  if ((await listPasskeys(tx, user.id)).length >= MAX_PASSKEYS_OF_USER) throw new DomainError("conflict");
  const passkey = { id: deps.newId(), userId: user.id, name, createdAt: deps.now(), ...credential };
  // Another user's, too: the answer does not tell.
  if (!(await insertPasskey(tx, passkey))) return undefined;
  // This change of a factor ends no session, with which they would end.
  await deleteTrustsOfUser(tx, user.id);
  await tellPasskeyAdded(tx, deps, { user, from: owner }, context);
  return { ...passkey, lastUsedAt: null };
}

async function takeCredential(
  tx: TransactionSql,
  deps: PasskeyChangeDeps,
  user: Locked<Account> | undefined,
  { sessionId }: PasskeyOwner,
  attestation: Attestation,
): Promise<AttestedCredential | undefined> {
  const challenge = challengeOf(attestation.clientDataJson);
  if (challenge === undefined || user?.status !== "active") return undefined;
  const isOpen = await takePasskeyChallenge(tx, {
    purpose: "registration",
    boundTo: sessionBinding(sessionId),
    user,
    challengeHash: hashOfChallenge(challenge),
    now: deps.now(),
  });
  return isOpen ? verifyAttestation(deps.passkeyParty, attestation, challenge) : undefined;
}
