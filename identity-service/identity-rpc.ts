import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { IdentityServiceServer } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { ACCOUNT_CALLERS, createAccountRpc } from "./account-rpc.ts";
import { getOwnAccount } from "./accounts/own-account.ts";
import { type AccountsDeps, register } from "./accounts/register.ts";
import { APPROVAL_CALLERS, createApprovalRpc } from "./approval-rpc.ts";
import { createLoginRpc, LOGIN_CALLERS } from "./login-rpc.ts";
import { notifyWebhookPaused } from "./mail/notify-webhook-paused.ts";
import { createMfaRpc, MFA_CALLERS } from "./mfa-rpc.ts";
import type { OAuthDeps } from "./oauth/begin-oauth-login.ts";
import { createOAuthRpc, OAUTH_CALLERS } from "./oauth-rpc.ts";
import { createPasskeyRpc, PASSKEY_CALLERS } from "./passkey-rpc.ts";
import { notifyRefreshReuse } from "./sessions/notify-refresh-reuse.ts";
import type { StepUpDeps } from "./step-up/begin-step-up.ts";
import { createStepUpRpc, STEP_UP_CALLERS } from "./step-up-rpc.ts";
import { encodeUser } from "./users/user-rpc.ts";

export const IDENTITY_CALLERS: Callers<IdentityServiceServer> = {
  register: ["gateway"],
  getUser: ["gateway"],
  notifyRefreshReuse: ["token-service"],
  notifyWebhookPaused: ["event-service"],
  ...LOGIN_CALLERS,
  ...MFA_CALLERS,
  ...STEP_UP_CALLERS,
  ...ACCOUNT_CALLERS,
  ...OAUTH_CALLERS,
  ...PASSKEY_CALLERS,
  ...APPROVAL_CALLERS,
};

export type IdentityDeps = AccountsDeps & StepUpDeps & OAuthDeps;

/** Any method may also throw `busy`, `too_many_requests` or `service_unavailable`. */
export function createIdentityRpc(deps: IdentityDeps): Implementation<IdentityServiceServer> {
  return {
    register: async (request, context) => ({
      user: encodeUser({
        ...(await register(deps, request, context.deadlineMs, context)),
        mfaEnabled: false,
      }),
    }),
    getUser: async ({ userId }) => {
      const { account, recoveryCodesLeft, totpSince } = await getOwnAccount(deps, userId);
      const { hasTotp, passwordHash, credentialsProvenAt } = account;
      const ways = { hasTotp, hasPassword: passwordHash !== null };
      const credentialsProven = credentialsProvenAt !== null;
      return { user: encodeUser(account), recoveryCodesLeft, ...ways, totpSince, credentialsProven };
    },
    notifyRefreshReuse: async ({ ip: clientIp, ...event }) => {
      await notifyRefreshReuse(deps, { ...event, clientIp });
      return {};
    },
    notifyWebhookPaused: async ({ ownerUserId: userId, ...pause }) => {
      await notifyWebhookPaused(deps, { ...pause, userId });
      return {};
    },
    ...createAccountRpc(deps, encodeUser),
    ...createLoginRpc(deps),
    ...createMfaRpc(deps),
    ...createStepUpRpc(deps),
    ...createOAuthRpc(deps),
    ...createPasskeyRpc(deps),
    ...createApprovalRpc(deps),
  };
}
