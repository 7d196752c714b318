import type { PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/server";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type AssuranceLevel,
  type StepUpMethod,
  stepUpMethods,
  stepUpTarget,
} from "#token-client/assurance.ts";
import { newMfaToken } from "../login/mfa-token.ts";
import type { MfaDeps } from "../mfa/check-mfa-code.ts";
import { countRecoveryCodes } from "../mfa/mfa-store.ts";
import { beginPasskeyCeremony, type PasskeyDeps } from "../passkeys/passkey-ceremony.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { deleteEndedStepUps, insertStepUp } from "./step-up-store.ts";

export interface StepUpDeps extends MfaDeps, PasskeyDeps {
  tokenService: Pick<TokenService, "raiseSession" | "revokeUserSessions">;
}

const TTL_S = 300;

interface BegunStepUp {
  /** Never logged. */
  stepUpToken: string;
  methods: readonly StepUpMethod[];
  /** With the method `passkey`. */
  passkey?: PublicKeyCredentialRequestOptionsJSON | undefined;
  expiresInS: number;
}

/**
 * @throws {DomainError} `mfa_enrollment_required` if the user has no factor that reaches the level; at level 1, which they
 * reach at a provider, `reauthentication_required`.
 */
export async function beginStepUp(
  deps: StepUpDeps,
  request: {
    userId: string;
    sessionId: string;
    current: AssuranceLevel;
    /** Undefined: the current level, afresh. */
    wanted: AssuranceLevel | undefined;
  },
): Promise<BegunStepUp> {
  const { userId, sessionId, current, wanted = current } = request;
  const user = await findAccountById(deps.sql, userId);
  if (user?.status !== "active") throw new DomainError("token_invalid");
  const acr = stepUpTarget(wanted, current);
  const methods = await usableMethods(deps.sql, user, acr);
  if (methods.length === 0)
    throw new DomainError(acr === 1 ? "reauthentication_required" : "mfa_enrollment_required");
  const { tempToken: stepUpToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + TTL_S * 1_000);
  const { sessionEpoch } = user;
  await insertStepUp(deps.sql, { tokenHash, userId, sessionId, sessionEpoch, acr, createdAt, expiresAt });
  const ceremony = { purpose: "step_up", boundTo: tokenHash, user } as const;
  const passkey = await beginPasskeyCeremony(deps.sql, deps, ceremony);
  return { stepUpToken, methods, expiresInS: TTL_S, passkey };
}

async function usableMethods(sql: Sql, user: Account, acr: AssuranceLevel): Promise<StepUpMethod[]> {
  const isUsable: Record<StepUpMethod, boolean> = {
    passkey: user.passkeyCount > 0,
    totp: user.hasTotp,
    recovery_code: user.mfaEnabled && (await countRecoveryCodes(sql, user.id)) > 0,
    password: user.passwordHash !== null,
  };
  return stepUpMethods(acr).filter((method) => isUsable[method]);
}

const MAX_BATCH = 1_000;

/** An ended step-up answers as an unknown one. */
export async function deleteOldStepUps(deps: { sql: Sql; now: () => Date }): Promise<void> {
  while ((await deleteEndedStepUps(deps.sql, deps.now(), MAX_BATCH)) === MAX_BATCH);
}
