import type { IdentityServiceServer } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { ACCOUNT_CALLERS, type AccountDeps, createAccountRpc } from "./account-rpc.ts";
import { getOwnAccount } from "./accounts/own-account.ts";
import { type RegisterDeps, register } from "./accounts/register.ts";
import { createLoginRpc, LOGIN_CALLERS, type LoginRpcDeps } from "./login-rpc.ts";
import { createMfaRpc, MFA_CALLERS, type MfaRpcDeps } from "./mfa-rpc.ts";
import { createOAuthRpc, OAUTH_CALLERS, type OAuthRpcDeps } from "./oauth-rpc.ts";
import { type NotifyDeps, notifyRefreshReuse } from "./sessions/notify-refresh-reuse.ts";
import { encodeUser } from "./users/user-rpc.ts";

/** Only the gateway acts for end users; only token-service handles refresh tokens. */
export const IDENTITY_CALLERS: Callers<IdentityServiceServer> = {
  register: ["gateway"],
  getUser: ["gateway"],
  notifyRefreshReuse: ["token-service"],
  ...LOGIN_CALLERS,
  ...MFA_CALLERS,
  ...ACCOUNT_CALLERS,
  ...OAUTH_CALLERS,
};

/** Any method may throw `busy`, `too_many_requests` or `service_unavailable`; use cases document only other errors. */
export function createIdentityRpc(
  deps: RegisterDeps & NotifyDeps & AccountDeps & LoginRpcDeps & MfaRpcDeps & OAuthRpcDeps,
): Implementation<IdentityServiceServer> {
  return {
    register: async (request, context) => ({
      user: encodeUser(await register(deps, request, context.deadlineMs, context)),
    }),
    getUser: async ({ userId }) => {
      const { recoveryCodesLeft, ...user } = await getOwnAccount(deps, userId);
      return { user: encodeUser(user), recoveryCodesLeft };
    },
    notifyRefreshReuse: async (request) => {
      await notifyRefreshReuse(deps, request);
      return {};
    },
    ...createAccountRpc(deps, encodeUser),
    ...createLoginRpc(deps),
    ...createMfaRpc(deps),
    ...createOAuthRpc(deps),
  };
}
