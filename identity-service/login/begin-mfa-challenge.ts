import { type ClientOrigin, storableOrigin } from "../audit/client-origin.ts";
import { type FirstFactor, insertMfaChallenge } from "../mfa/mfa-store.ts";
import { secondFactorsOf } from "../mfa/second-factors.ts";
import { beginPasskeyCeremony } from "../passkeys/passkey-ceremony.ts";
import type { Account } from "../users/account.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { MfaChallenge } from "./login-result.ts";
import { newMfaToken } from "./mfa-token.ts";

/** The challenge ends after `MFA_CHALLENGE_TTL_S`, five attempts or a session end. */
export async function beginMfaChallenge(
  deps: LoginDeps,
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
