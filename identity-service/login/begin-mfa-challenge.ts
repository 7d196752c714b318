import type { PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/server";
import { type ClientOrigin, storableOrigin } from "../audit/client-origin.ts";
import { type FirstFactor, insertMfaChallenge } from "../mfa/mfa-store.ts";
import { type SecondFactor, secondFactorsOf } from "../mfa/second-factors.ts";
import { beginPasskeyCeremony } from "../passkeys/passkey-ceremony.ts";
import type { Account } from "../users/account.ts";
import type { CompleteLoginDeps } from "./login-deps.ts";
import { newMfaToken } from "./mfa-token.ts";

export interface MfaChallenge {
  kind: "mfaChallenge";
  /** Never logged. */
  tempToken: string;
  methods: readonly SecondFactor[];
  /** With the method `passkey`. */
  passkey?: PublicKeyCredentialRequestOptionsJSON | undefined;
  userId: string;
  /** For which the user may trust this device. Undefined: not at all. */
  trustDeviceDays?: number | undefined;
}

/** The challenge ends after `MFA_CHALLENGE_TTL_S`, five attempts or a session end. */
export async function beginMfaChallenge(
  deps: CompleteLoginDeps,
  login: {
    user: Pick<Account, "id" | "sessionEpoch" | "hasTotp" | "passkeyCount" | "mfaEnabled">;
    firstFactor: FirstFactor;
    trustDeviceDays?: number | undefined;
  },
  origin: ClientOrigin,
): Promise<MfaChallenge> {
  const { user, firstFactor, trustDeviceDays } = login;
  const { id: userId, sessionEpoch } = user;
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  const challenge = { tokenHash, userId, firstFactor, sessionEpoch, createdAt, expiresAt };
  await insertMfaChallenge(deps.sql, { ...challenge, ...storableOrigin(origin) });
  const ceremony = { purpose: "second_factor", boundTo: tokenHash, user } as const;
  const passkey = await beginPasskeyCeremony(deps.sql, deps, ceremony);
  const methods = secondFactorsOf(user);
  return { kind: "mfaChallenge", tempToken, methods, passkey, userId, trustDeviceDays };
}
