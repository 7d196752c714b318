import type { IdentityServiceServer } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import type { BeginPasswordChangeDeps } from "./login/begin-password-change.ts";
import { completeMfaLogin } from "./login/complete-mfa-login.ts";
import type { CountLogin } from "./login/count-logins.ts";
import { type RememberDeviceDeps, rememberDevice } from "./login/remember-device.ts";
import { type BeginTotpEnrollmentDeps, beginTotpEnrollment } from "./mfa/begin-totp-enrollment.ts";
import { type ConfirmTotpEnrollmentDeps, confirmTotpEnrollment } from "./mfa/confirm-totp-enrollment.ts";
import { disableTotp } from "./mfa/disable-totp.ts";
import { regenerateRecoveryCodes } from "./mfa/regenerate-recovery-codes.ts";
import type { BeginSessionDeps } from "./sessions/begin-session.ts";
import { encodeUser } from "./users/user-rpc.ts";

type MfaMethods =
  | "completeMfaLogin"
  | "beginTotpEnrollment"
  | "confirmTotpEnrollment"
  | "disableTotp"
  | "regenerateRecoveryCodes";

/** Only the gateway acts for end users. */
export const MFA_CALLERS: Pick<Callers<IdentityServiceServer>, MfaMethods> = {
  completeMfaLogin: ["gateway"],
  beginTotpEnrollment: ["gateway"],
  confirmTotpEnrollment: ["gateway"],
  disableTotp: ["gateway"],
  regenerateRecoveryCodes: ["gateway"],
};

export type MfaRpcDeps = BeginSessionDeps &
  BeginPasswordChangeDeps &
  BeginTotpEnrollmentDeps &
  ConfirmTotpEnrollmentDeps &
  RememberDeviceDeps & { countLogin: CountLogin };

/** The methods of IdentityService about the second factor. Holds no logic: decode, call, encode. */
export function createMfaRpc(deps: MfaRpcDeps): Pick<Implementation<IdentityServiceServer>, MfaMethods> {
  return {
    completeMfaLogin: async (request, context) => {
      const result = await deps.countLogin("mfa", completeMfaLogin(deps, request, context));
      if ("passwordChange" in result) return { completed: undefined, passwordChange: result.passwordChange };
      const { tokens, user } = result;
      const deviceToken = await rememberDevice(deps, { ...request, user });
      return { completed: { tokens, user: encodeUser(user), deviceToken }, passwordChange: undefined };
    },
    beginTotpEnrollment: (request, context) => beginTotpEnrollment(deps, request, context.deadlineMs),
    confirmTotpEnrollment: async (request, context) => {
      const { recoveryCodes, endedSessionIds } = await confirmTotpEnrollment(deps, request, context);
      return { recoveryCodes, endedSessionIds: [...endedSessionIds] };
    },
    disableTotp: async (request, context) => ({
      endedSessionIds: [...(await disableTotp(deps, request, context))],
    }),
    regenerateRecoveryCodes: async (request, context) => ({
      recoveryCodes: await regenerateRecoveryCodes(deps, request, context),
    }),
  };
}
