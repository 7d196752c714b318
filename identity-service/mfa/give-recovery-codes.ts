import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { killLinks } from "../mail/link-store.ts";
import { assertOwner, type OwnerSession } from "../passwords/prove-owner.ts";
import { deleteTrustsOfUser } from "../throttle/trusted-device-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { checkMfaCode, type MfaDeps, refuseWrongCode, type TypedCode } from "./check-mfa-code.ts";
import { enqueueMfaNotice } from "./mfa-notice.ts";
import { replaceRecoveryCodes } from "./mfa-store.ts";
import { newRecoveryCodes, normalCode, recoveryCodeHash } from "./recovery-code.ts";

/**
 * What the first second factor brings: recovery codes, and the end of a change of address that was begun without it, which
 * would take the account away from it. Codes of an earlier factor stay: a new one must not take the owner's away. Returns
 * none then.
 * @param user as they were before the factor.
 */
export async function settleFirstFactor(
  tx: TransactionSql,
  deps: Pick<MfaDeps, "now" | "randomBytes">,
  user: Locked<Account>,
): Promise<string[]> {
  if (user.mfaEnabled) return [];
  await killLinks(tx, { userId: user.id, purposes: ["confirm_email_change"], now: deps.now() });
  return giveRecoveryCodes(tx, deps, user.id);
}

/** Returns the plaintext, which is not stored. */
async function giveRecoveryCodes(
  tx: TransactionSql,
  deps: Pick<MfaDeps, "now" | "randomBytes">,
  userId: string,
): Promise<string[]> {
  const codes = newRecoveryCodes(deps.randomBytes);
  const hashes = codes.flatMap((code) => recoveryCodeHash(normalCode(code)) ?? []);
  await replaceRecoveryCodes(tx, userId, hashes, deps.now());
  return codes;
}

/** @throws {DomainError} `mfa_code_invalid`. */
export async function regenerateRecoveryCodes(
  deps: MfaDeps,
  request: TypedCode & OwnerSession & { userId: string },
  context: CallContext,
): Promise<string[]> {
  const { userId, clientIp, userAgent } = request;
  const codes = await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user?.status !== "active") return undefined;
    assertOwner(deps, "renewRecoveryCodes", request, user);
    const method = await checkMfaCode(tx, deps, { user, typed: request, source: "session" }, context);
    if (method === undefined) return undefined;
    // First, so that the codes are not older than the link that takes them back.
    await enqueueMfaNotice(tx, deps, user, { template: "recovery-codes-renewed", from: request });
    const given = await giveRecoveryCodes(tx, deps, userId);
    // This change of a factor ends no session, with which they would end.
    await deleteTrustsOfUser(tx, userId);
    const type = "recovery_codes_renewed";
    await recordAudit(tx, deps, { type, userId, byOwner: true, clientIp, userAgent }, context);
    return given;
  });
  // After the commit, so that the attempt counts.
  if (codes === undefined) refuseWrongCode(deps);
  deps.wakeMailWorker();
  return codes;
}
