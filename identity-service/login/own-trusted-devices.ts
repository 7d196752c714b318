import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { assertOwner, type OwnerSession } from "../passwords/prove-owner.ts";
import { deleteTrust, listTrusts, type TrustedDevice } from "../throttle/trusted-device-store.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import type { LoginDeps } from "./login-deps.ts";
import { trustPeriod } from "./trust-device.ts";

/** Newest first, at most 10. */
export function listTrustedDevices(
  deps: Pick<LoginDeps, "sql" | "now" | "trustedDeviceDays">,
  userId: string,
): Promise<TrustedDevice[]> {
  return listTrusts(deps.sql, { userId, ...trustPeriod(deps) });
}

/** Its sessions go on. @throws {DomainError} `step_up_required`; `not_found`, also for another user's. */
export async function removeTrustedDevice(
  deps: Pick<LoginDeps, "sql" | "now" | "newId">,
  { userId, trustedDeviceId: id, ...session }: OwnerSession & { userId: string; trustedDeviceId: string },
  context: CallContext,
): Promise<void> {
  await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user?.status !== "active") throw new DomainError("not_found");
    assertOwner(deps, "removeTrustedDevice", session, user);
    if (!(await deleteTrust(tx, { userId, id }))) throw new DomainError("not_found");
    const event = { type: "trusted_device_removed", userId, reason: `device ${id}` } as const;
    await recordAudit(tx, deps, event, context);
  });
}
