import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { IdentityServiceServer } from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { User as ProtoUser } from "#proto/gatehouse/identity/v1/user.ts";
import { changeEmail } from "./accounts/change-email.ts";
import { changePassword } from "./accounts/change-password.ts";
import { confirmEmailChange } from "./accounts/confirm-email-change.ts";
import { deleteAccount } from "./accounts/delete-account.ts";
import { forgotPassword, resendVerification } from "./accounts/mail-a-link.ts";
import { updateProfile } from "./accounts/own-account.ts";
import type { AccountsDeps } from "./accounts/register.ts";
import { resetPassword } from "./accounts/reset-password.ts";
import { undoAccessChange, undoEmailChange } from "./accounts/undo-change.ts";
import { disownAccount, verifyEmail } from "./accounts/verify-email.ts";
import { checkLink } from "./mail/use-link.ts";
import { decodeOwner } from "./passwords/prove-owner.ts";
import { type EndedSessions, endOwnSessions } from "./sessions/end-sessions.ts";
import type { Account } from "./users/account.ts";
import type { LoginRules } from "./users/can-log-in.ts";

export const ACCOUNT_CALLERS = {
  checkLink: ["gateway"],
  verifyEmail: ["gateway"],
  disownAccount: ["gateway"],
  resendVerification: ["gateway"],
  forgotPassword: ["gateway"],
  resetPassword: ["gateway"],
  changePassword: ["gateway"],
  updateProfile: ["gateway"],
  deleteAccount: ["gateway"],
  endOwnSessions: ["gateway"],
  changeEmail: ["gateway"],
  confirmEmailChange: ["gateway"],
  undoEmailChange: ["gateway"],
  undoAccessChange: ["gateway"],
} as const satisfies Partial<Callers<IdentityServiceServer>>;

export function createAccountRpc(
  deps: AccountsDeps & LoginRules,
  encodeUser: (account: Account) => ProtoUser | Promise<ProtoUser>,
): Pick<Implementation<IdentityServiceServer>, keyof typeof ACCOUNT_CALLERS> {
  return {
    checkLink: (request) => checkLink(deps, request),
    verifyEmail: async (request, context) => ({
      user: await encodeUser(await verifyEmail(deps, request, context)),
    }),
    disownAccount: async (request, context) => encodeEnded(await disownAccount(deps, request, context)),
    resendVerification: async (request) => {
      await resendVerification(deps, request);
      return {};
    },
    forgotPassword: async (request) => {
      await forgotPassword(deps, request);
      return {};
    },
    resetPassword: async (request, context) => encodeEnded(await resetPassword(deps, request, context)),
    changePassword: async (request, context) =>
      encodeEnded(await changePassword(deps, decodeOwner(request), context)),
    updateProfile: async (request, context) => ({
      user: await encodeUser(await updateProfile(deps, request, context)),
    }),
    deleteAccount: async (request, context) =>
      encodeEnded(await deleteAccount(deps, decodeOwner(request), context)),
    endOwnSessions: async (request, context) => encodeEnded(await endOwnSessions(deps, request, context)),
    changeEmail: async (request, context) => {
      await changeEmail(deps, decodeOwner(request), context.deadlineMs);
      return {};
    },
    confirmEmailChange: async (request, context) => {
      const { user, sessionIds } = await confirmEmailChange(deps, request, context);
      return { user: await encodeUser(user), endedSessionIds: [...sessionIds] };
    },
    undoEmailChange: async ({ token }, context) => encodeEnded(await undoEmailChange(deps, token, context)),
    undoAccessChange: async ({ token }, context) => encodeEnded(await undoAccessChange(deps, token, context)),
  };
}

function encodeEnded({ userId, sessionIds }: EndedSessions) {
  return { userId, endedSessionIds: [...sessionIds] };
}
