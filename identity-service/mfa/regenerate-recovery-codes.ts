import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { assertOwner, type OwnerSession } from "../passwords/prove-owner.ts";
import { deleteTrustsOfUser } from "../throttle/trusted-device-store.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { checkMfaCode, refuseWrongCode } from "./check-mfa-code.ts";
import { giveRecoveryCodes } from "./give-recovery-codes.ts";
import type { MfaDeps, TypedCode } from "./mfa-deps.ts";
import { enqueueMfaNotice } from "./mfa-notice.ts";

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
