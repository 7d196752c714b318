import { createHash } from "node:crypto";
import type { PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/server";
import { z } from "zod";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { MfaDeps } from "../mfa/check-mfa-code.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { Account, Locked } from "../users/account.ts";
import {
  type ChallengeBinding,
  deleteExpiredChallenges,
  hasPasskeyChallenge,
  insertPasskeyChallenge,
  type PasskeyPurpose,
  takePasskeyChallenge,
} from "./passkey-challenge-store.ts";
import type { PasskeyParty } from "./passkey-config.ts";
import { recordCounterRefused } from "./passkey-notice.ts";
import { findPasskey, listPasskeys, notePasskeyUse, type Passkey } from "./passkey-store.ts";
import { type Assertion, verifyAssertion } from "./verify-assertion.ts";

export interface PasskeyDeps extends MakeLinkDeps, EndSessionsDeps, Pick<MfaDeps, "mfaRequiredRoles"> {
  passkeyParty: PasskeyParty;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
  wakeMailWorker: () => void;
}

export const CHALLENGE_LIFETIME_MS = 5 * 60_000;
const CHALLENGE_BYTES = 32;

interface PasskeyBeginning extends ChallengeBinding {
  purpose: Exclude<PasskeyPurpose, "registration">;
  /** 32 bytes. Random without one. */
  challenge?: Buffer;
}

interface PasskeyAnswer extends ClientOrigin {
  purpose: Exclude<PasskeyPurpose, "registration">;
  boundTo: Buffer;
  assertion: Assertion;
  user: Locked<Account> | undefined;
}

export interface UsedPasskey {
  passkey: Passkey;
  /** RFC 8176. */
  amr: readonly string[];
}

/** The options for `navigator.credentials.get`. Undefined for a user without a passkey. */
export async function beginPasskeyCeremony(
  sql: Sql | TransactionSql,
  deps: Pick<PasskeyDeps, "passkeyParty" | "now" | "randomBytes">,
  beginning: PasskeyBeginning,
): Promise<PublicKeyCredentialRequestOptionsJSON | undefined> {
  const { user } = beginning;
  const passkeys = user === null ? [] : await listPasskeys(sql, user.id);
  if (user !== null && passkeys.length === 0) return undefined;
  return requestOptions(deps, passkeys, await keepChallenge(sql, deps, beginning));
}

/** The same options once more. Undefined if the challenge can no longer be answered. */
export async function repeatPasskeyCeremony(
  sql: Sql | TransactionSql,
  deps: Pick<PasskeyDeps, "passkeyParty" | "now">,
  { challenge, ...binding }: ChallengeBinding & { user: { id: string }; challenge: Buffer },
): Promise<PublicKeyCredentialRequestOptionsJSON | undefined> {
  const challengeHash = createHash("sha256").update(challenge).digest();
  if (!(await hasPasskeyChallenge(sql, { ...binding, challengeHash, now: deps.now() }))) return undefined;
  return requestOptions(deps, await listPasskeys(sql, binding.user.id), challenge);
}

async function requestOptions(
  deps: Pick<PasskeyDeps, "passkeyParty">,
  passkeys: readonly Passkey[],
  challenge: Buffer,
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  const { generateAuthenticationOptions } = await import("@simplewebauthn/server");
  return generateAuthenticationOptions({
    rpID: deps.passkeyParty.id,
    challenge: new Uint8Array(challenge),
    // Empty: the authenticator offers what it has.
    allowCredentials: passkeys.map(describeCredential),
    timeout: CHALLENGE_LIFETIME_MS,
    userVerification: "required",
  });
}

/** 32 bytes, kept as a hash. */
export async function keepChallenge(
  sql: Sql | TransactionSql,
  deps: Pick<PasskeyDeps, "now" | "randomBytes">,
  { challenge = deps.randomBytes(CHALLENGE_BYTES), ...binding }: ChallengeBinding & { challenge?: Buffer },
): Promise<Buffer> {
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + CHALLENGE_LIFETIME_MS);
  const challengeHash = createHash("sha256").update(challenge).digest();
  await insertPasskeyChallenge(sql, { ...binding, challengeHash, createdAt, expiresAt });
  return challenge;
}

export function describeCredential({ credentialId, transports }: Passkey) {
  return { id: credentialId.toString("base64url"), transports: [...transports] };
}

/**
 * Uses the challenge up, whatever the answer is worth. Undefined for a refused answer: commit, so that it cannot be
 * tried again, wake the mail worker, and then refuse. An undefined user is refused, too.
 */
export async function finishPasskeyCeremony(
  tx: TransactionSql,
  deps: PasskeyDeps,
  answer: PasskeyAnswer,
  context: CallContext,
): Promise<UsedPasskey | undefined> {
  const { user, purpose, boundTo, assertion } = answer;
  const challenge = challengeOf(assertion.clientDataJson);
  if (challenge === undefined) return undefined;
  const isLogin = purpose === "login";
  const owner = isLogin || user === undefined ? null : { id: user.id, sessionEpoch: user.sessionEpoch };
  const binding = { purpose, boundTo, user: owner, challengeHash: hashOfChallenge(challenge) };
  if (!(await takePasskeyChallenge(tx, { ...binding, now: deps.now() }))) return undefined;
  const passkey = await findPasskey(tx, Buffer.from(assertion.credentialId, "base64url"));
  if (user?.status !== "active" || passkey?.userId !== user.id) return undefined;
  const expected = { challenge, isUserHandleRequired: isLogin };
  const verified = await verifyAssertion(deps.passkeyParty, assertion, passkey, expected);
  if (verified === undefined) return undefined;
  if (!(await notePasskeyUse(tx, { id: passkey.id, ...verified, at: deps.now() }))) {
    await recordCounterRefused(tx, deps, { user, passkey, from: answer }, context);
    return undefined;
  }
  return { passkey, amr: amrOf(passkey) };
}

/**
 * RFC 8176 §2. A key that can be backed up leaves its device, so it counts as software. `user`: presence was tested.
 * `mfa`: the authenticator has verified its user by a PIN or biometrics, which it does not name.
 */
function amrOf({ isBackupEligible }: Passkey): readonly string[] {
  return [isBackupEligible ? "swk" : "hwk", "user", "mfa"];
}

const MAX_BATCH = 1_000;

export async function deleteOldChallenges(deps: { sql: Sql; now: () => Date }): Promise<void> {
  while ((await deleteExpiredChallenges(deps.sql, deps.now(), MAX_BATCH)) === MAX_BATCH);
}

/** WebAuthn Level 3 §5.1.9, §5.1.10. Empty without options. */
export function optionsJson(options: object | undefined): string {
  return options === undefined ? "" : JSON.stringify(options);
}

const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

/** WebAuthn Level 3 §5.8.1. The library checks the rest. */
const ClientData = z.object({
  challenge: z.string().regex(CHALLENGE),
  // The library lets an answer from a frame of another site pass.
  crossOrigin: z.literal(false).optional(),
  topOrigin: z.undefined().optional(),
});

/** The challenge in base64url. Undefined for malformed data and answers from frames of other sites. */
export function challengeOf(clientDataJson: string): string | undefined {
  try {
    const text = Buffer.from(clientDataJson, "base64url").toString("utf8");
    return ClientData.safeParse(JSON.parse(text)).data?.challenge;
  } catch {
    return undefined;
  }
}

export function hashOfChallenge(challenge: string): Buffer {
  return createHash("sha256").update(Buffer.from(challenge, "base64url")).digest();
}
