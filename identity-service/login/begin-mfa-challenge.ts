import { type ClientOrigin, storableOrigin } from "../audit/client-origin.ts";
import { MFA_METHODS, type MfaMethod } from "../mfa/check-mfa-code.ts";
import { type FirstFactor, insertMfaChallenge } from "../mfa/mfa-store.ts";
import type { CompleteLoginDeps } from "./login-deps.ts";
import { newMfaToken } from "./mfa-token.ts";

export interface MfaChallenge {
  kind: "mfaChallenge";
  /** Never logged. */
  tempToken: string;
  methods: readonly MfaMethod[];
  userId: string;
  /** For which the user may trust this device. Undefined: not at all. */
  trustDeviceDays?: number | undefined;
}

/** The challenge ends after `MFA_CHALLENGE_TTL_S`, five attempts or a session end. */
export async function beginMfaChallenge(
  deps: CompleteLoginDeps,
  login: {
    userId: string;
    firstFactor: FirstFactor;
    sessionEpoch: number;
    trustDeviceDays?: number | undefined;
  },
  origin: ClientOrigin,
): Promise<MfaChallenge> {
  const { userId, firstFactor, sessionEpoch, trustDeviceDays } = login;
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  const challenge = { tokenHash, userId, firstFactor, sessionEpoch, createdAt, expiresAt };
  await insertMfaChallenge(deps.sql, { ...challenge, ...storableOrigin(origin) });
  return { kind: "mfaChallenge", tempToken, methods: MFA_METHODS, userId, trustDeviceDays };
}
