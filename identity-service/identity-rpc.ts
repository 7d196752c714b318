import type { IdentityServiceServer } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { ACCOUNT_CALLERS, type AccountDeps, createAccountRpc } from "./account-rpc.ts";
import { type RegisterDeps, register } from "./accounts/register.ts";
import { type ChangePasswordAtLoginDeps, changePasswordAtLogin } from "./login/change-password-at-login.ts";
import { type RememberDeviceDeps, rememberDevice } from "./login/remember-device.ts";
import { type ThrottleLoginDeps, throttleLogin } from "./login/throttle-login.ts";
import { countRecoveryCodesLeft } from "./mfa/count-recovery-codes-left.ts";
import { createMfaRpc, MFA_CALLERS, type MfaRpcDeps } from "./mfa-rpc.ts";
import { createOAuthRpc, OAUTH_CALLERS, type OAuthRpcDeps } from "./oauth-rpc.ts";
import { type NotifyDeps, notifyRefreshReuse } from "./sessions/notify-refresh-reuse.ts";
import { getUser } from "./users/get-user.ts";
import { encodeUser } from "./users/user-rpc.ts";

/** Only the gateway acts for end users; only token-service knows of their refresh tokens. */
export const IDENTITY_CALLERS: Callers<IdentityServiceServer> = {
  register: ["gateway"],
  login: ["gateway"],
  changePasswordAtLogin: ["gateway"],
  getUser: ["gateway"],
  notifyRefreshReuse: ["token-service"],
  ...MFA_CALLERS,
  ...ACCOUNT_CALLERS,
  ...OAUTH_CALLERS,
};

/** Adapts IdentityService to use cases. Holds no logic: decode, call, encode. */
export function createIdentityRpc(
  deps: RegisterDeps &
    ThrottleLoginDeps &
    ChangePasswordAtLoginDeps &
    RememberDeviceDeps &
    NotifyDeps &
    AccountDeps &
    MfaRpcDeps &
    OAuthRpcDeps,
): Implementation<IdentityServiceServer> {
  return {
    register: async (request, context) => ({
      user: encodeUser(await register(deps, request, context.deadlineMs, context)),
    }),
    login: async (request, context) => {
      const result = await deps.countLogin("password", throttleLogin(deps, request, context));
      if ("passwordChange" in result) {
        return { result: { $case: "passwordChange", value: result.passwordChange } };
      }
      if ("pending" in result) {
        const { tempToken, methods, userId } = result.pending;
        return { result: { $case: "mfaChallenge", value: { tempToken, methods: [...methods], userId } } };
      }
      const { tokens, user } = result;
      const device = await rememberDevice(deps, { ...request, user });
      const completed = { tokens, user: encodeUser(user), deviceToken: device };
      return { result: { $case: "completed", value: completed } };
    },
    changePasswordAtLogin: async (request, context) => {
      const { tokens, user } = await deps.countLogin(
        "password_change",
        changePasswordAtLogin(deps, request, context),
      );
      const deviceToken = await rememberDevice(deps, { ...request, user });
      return { completed: { tokens, user: encodeUser(user), deviceToken } };
    },
    getUser: async (request) => {
      const user = await getUser(deps, request.userId);
      return { user: encodeUser(user), recoveryCodesLeft: await countRecoveryCodesLeft(deps, user) };
    },
    notifyRefreshReuse: async (request) => {
      await notifyRefreshReuse(deps, request);
      return {};
    },
    ...createAccountRpc(deps, encodeUser),
    ...createMfaRpc(deps),
    ...createOAuthRpc(deps),
  };
}
