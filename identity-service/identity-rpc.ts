import type { IdentityServiceServer } from "../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { ACCOUNT_CALLERS, createAccountRpc } from "./account-rpc.ts";
import type { AccountsDeps } from "./accounts/accounts-deps.ts";
import { getOwnAccount } from "./accounts/own-account.ts";
import { register } from "./accounts/register.ts";
import type { LogInDeps } from "./login/log-in.ts";
import { createLoginRpc, LOGIN_CALLERS } from "./login-rpc.ts";
import type { MfaChangeDeps } from "./mfa/mfa-deps.ts";
import { createMfaRpc, MFA_CALLERS } from "./mfa-rpc.ts";
import type { OAuthDeps } from "./oauth/oauth-deps.ts";
import { createOAuthRpc, OAUTH_CALLERS } from "./oauth-rpc.ts";
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
  deps: AccountsDeps & NotifyDeps & LogInDeps & MfaChangeDeps & OAuthDeps,
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
