import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { IdentityServiceServer } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { beginTotpEnrollment } from "./mfa/begin-totp-enrollment.ts";
import type { MfaDeps } from "./mfa/check-mfa-code.ts";
import { confirmTotpEnrollment } from "./mfa/confirm-totp-enrollment.ts";
import { disableTotp } from "./mfa/disable-totp.ts";
import { regenerateRecoveryCodes } from "./mfa/give-recovery-codes.ts";
import { decodeOwner } from "./passwords/owner-rpc.ts";

type MfaMethods = "beginTotpEnrollment" | "confirmTotpEnrollment" | "disableTotp" | "regenerateRecoveryCodes";

export const MFA_CALLERS: Pick<Callers<IdentityServiceServer>, MfaMethods> = {
  beginTotpEnrollment: ["gateway"],
  confirmTotpEnrollment: ["gateway"],
  disableTotp: ["gateway"],
  regenerateRecoveryCodes: ["gateway"],
};

export function createMfaRpc(deps: MfaDeps): Pick<Implementation<IdentityServiceServer>, MfaMethods> {
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
  };
}
