import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { IdentityServiceServer } from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { LoginDeps } from "./login/login-deps.ts";
import { listTrustedDevices, removeTrustedDevice } from "./login/trust-device.ts";
import { beginTotpEnrollment } from "./mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "./mfa/confirm-totp-enrollment.ts";
import { disableTotp } from "./mfa/disable-totp.ts";
import { regenerateRecoveryCodes } from "./mfa/give-recovery-codes.ts";
import { decodeOwner } from "./passwords/prove-owner.ts";

export const MFA_CALLERS = {
  beginTotpEnrollment: ["gateway"],
  confirmTotpEnrollment: ["gateway"],
  disableTotp: ["gateway"],
  regenerateRecoveryCodes: ["gateway"],
  listTrustedDevices: ["gateway"],
  removeTrustedDevice: ["gateway"],
} as const satisfies Partial<Callers<IdentityServiceServer>>;

export function createMfaRpc(
  deps: LoginDeps,
): Pick<Implementation<IdentityServiceServer>, keyof typeof MFA_CALLERS> {
  return {
    beginTotpEnrollment: (request, context) =>
      beginTotpEnrollment(deps, decodeOwner(request), context.deadlineMs),
    confirmTotpEnrollment: async (request, context) => {
      const confirmation = decodeOwner(request);
      const { recoveryCodes, endedSessionIds } = await confirmTotpEnrollment(deps, confirmation, context);
      return { recoveryCodes, endedSessionIds: [...endedSessionIds] };
    },
    disableTotp: async (request, context) => ({
      endedSessionIds: [...(await disableTotp(deps, decodeOwner(request), context))],
    }),
    regenerateRecoveryCodes: async (request, context) => ({
      recoveryCodes: await regenerateRecoveryCodes(deps, decodeOwner(request), context),
    }),
    listTrustedDevices: async ({ userId }) => ({ trustedDevices: await listTrustedDevices(deps, userId) }),
    removeTrustedDevice: async (request, context) => {
      await removeTrustedDevice(deps, decodeOwner(request), context);
      return {};
    },
  };
}
