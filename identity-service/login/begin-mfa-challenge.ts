import { MFA_METHODS, type MfaMethod } from "../mfa/check-mfa-code.ts";
import { type FirstFactor, insertMfaChallenge } from "../mfa/mfa-store.ts";
import type { CompleteLoginDeps } from "./login-deps.ts";
import { newMfaToken } from "./mfa-token.ts";

export interface MfaChallenge {
  kind: "mfaChallenge";
  /** For `completeMfaLogin` only. Never logged. */
  tempToken: string;
  methods: readonly MfaMethod[];
  userId: string;
}

const MAX_IP_CHARACTERS = 45;
const MAX_USER_AGENT_CHARACTERS = 512;

/** The challenge ends after `MFA_CHALLENGE_TTL_S`, five attempts or a session end. */
export async function beginMfaChallenge(
  deps: CompleteLoginDeps,
  login: {
    userId: string;
    firstFactor: FirstFactor;
    sessionEpoch: number;
    clientIp: string;
    userAgent: string;
  },
): Promise<MfaChallenge> {
  const { userId, firstFactor, sessionEpoch } = login;
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  const ip = login.clientIp.slice(0, MAX_IP_CHARACTERS);
  const userAgent = login.userAgent.replaceAll("\0", "").slice(0, MAX_USER_AGENT_CHARACTERS).toWellFormed();
  const challenge = { tokenHash, userId, firstFactor, sessionEpoch, createdAt, expiresAt, ip, userAgent };
  await insertMfaChallenge(deps.sql, challenge);
  return { kind: "mfaChallenge", tempToken, methods: MFA_METHODS, userId };
}
