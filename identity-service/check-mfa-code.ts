import type { CallContext } from "../service-kit/call-context.ts";
import type { TransactionSql } from "../service-kit/postgres.ts";
import { describeBrowser } from "./describe-browser.ts";
import { inUtc } from "./in-utc.ts";
import { knownAddress } from "./known-address.ts";
import { enqueueMail } from "./mail-outbox-store.ts";
import type { MfaDeps, TypedCode } from "./mfa-deps.ts";
import {
  consumeRecoveryCode,
  consumeTotpStep,
  countRecoveryCodes,
  findTotpCredential,
  type LockedUser,
  type TotpCredential,
} from "./mfa-store.ts";
import { assertTriesLeft, noteWrongCode } from "./mfa-tries.ts";
import { normalCode, recoveryCodeHash } from "./recovery-code.ts";
import { tellAudit } from "./tell-audit.ts";
import { totpStep } from "./totp.ts";
import { openTotpSecret } from "./totp-secret.ts";

/** What counts as a code. */
export const MFA_METHODS = ["totp", "recovery_code"] as const;
export type MfaMethod = (typeof MFA_METHODS)[number];

/**
 * Checks a code of a user's second factor and uses it up. A wrong one is counted, so the caller must let the transaction
 * commit, and fail after it. The use of a recovery code is told to its owner.
 *
 * @returns what the code was; undefined if it is wrong, was used, or there is no second factor.
 * @throws {DomainError} `too_many_requests`; then nothing was tried.
 */
export async function checkMfaCode(
  tx: TransactionSql,
  deps: Omit<MfaDeps, "sql">,
  user: LockedUser,
  typed: TypedCode,
  context: CallContext,
): Promise<MfaMethod | undefined> {
  await assertTriesLeft(tx, deps, user.id);
  const credential = await findTotpCredential(tx, user.id);
  if (credential !== undefined && credential.confirmedAt !== null) {
    const code = normalCode(typed.code);
    // First, because it needs no key: it is for when the app, or our key, is lost.
    const hash = recoveryCodeHash(code);
    if (hash !== undefined && (await consumeRecoveryCode(tx, user.id, hash))) {
      await tellOwner(tx, deps, user, typed);
      const { clientIp, userAgent } = typed;
      const used = {
        type: "recovery_code_used",
        userId: user.id,
        byOwner: true,
        clientIp,
        userAgent,
      } as const;
      await tellAudit(tx, deps, used, context);
      return "recovery_code";
    }
    const step = hash === undefined ? stepOf(deps, user, credential, code) : undefined;
    if (step !== undefined && (await consumeTotpStep(tx, user.id, step))) return "totp";
  }
  await noteWrongCode(tx, deps, user.id);
  return undefined;
}

function stepOf(
  deps: Pick<MfaDeps, "mfaKeys" | "now">,
  user: LockedUser,
  credential: TotpCredential,
  code: string,
): number | undefined {
  return totpStep(openTotpSecret(deps.mfaKeys, user.id, credential), code, deps.now());
}

async function tellOwner(
  tx: TransactionSql,
  deps: Omit<MfaDeps, "sql">,
  user: LockedUser,
  typed: TypedCode,
): Promise<void> {
  const data = {
    occurredAt: inUtc(deps.now()),
    ip: knownAddress(typed.clientIp),
    browser: describeBrowser(typed.userAgent),
    codesLeft: String(await countRecoveryCodes(tx, user.id)),
  };
  const mail = { id: deps.newId(), userId: user.id, recipient: user.email };
  await enqueueMail(tx, { ...mail, template: "recovery-code-used", data }, deps.now());
}
