import { IdentityServiceClient } from "../../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";
import { type CompletedLogin, toCompletedLogin, toUser, type User } from "./identity-client.ts";

/** Whose sessions a call has ended. */
export interface EndedSessions {
  userId: string;
  endedSessionIds: readonly string[];
}

/** Who asks for a mail, and from where. */
interface AskedMail {
  email: string;
  clientIp: string;
  /** The device token that an earlier login issued. May be empty. */
  deviceToken: string;
}

/** Whoever proves it by a password once more, and from where. */
interface ByPassword {
  userId: string;
  clientIp: string;
}

/** A mailed link, and what shows that its reader holds the account's credentials. */
export interface ProvenLink {
  token: string;
  /** Of the session that came along; empty: none did. */
  sessionUserId: string;
  /** Empty: none was given. */
  password: string;
  clientIp: string;
}

/** The new password of a login that needs one, and where it came from. */
export interface PasswordChangeAtLogin {
  tempToken: string;
  newPassword: string;
  clientIp: string;
  userAgent: string;
  /** As an earlier login gave it; may be empty. */
  deviceToken: string;
}

/** The gateway's view of what identity-service does with accounts. Every call throws what the service says, as a DomainError. */
export interface AccountClient {
  verifyEmail(link: ProvenLink, context: CallContext): Promise<User>;
  disownAccount(
    link: { token: string; clientIp: string; userAgent: string },
    context: CallContext,
  ): Promise<EndedSessions>;
  resendVerification(asked: AskedMail, context: CallContext): Promise<void>;
  forgotPassword(asked: AskedMail, context: CallContext): Promise<void>;
  resetPassword(
    reset: { token: string; newPassword: string; clientIp: string; keepRecentLogins: boolean },
    context: CallContext,
  ): Promise<EndedSessions>;
  changePasswordAtLogin(attempt: PasswordChangeAtLogin, context: CallContext): Promise<CompletedLogin>;
  changePassword(
    change: ByPassword & { sessionId: string; currentPassword: string; newPassword: string },
    context: CallContext,
  ): Promise<EndedSessions>;
  updateProfile(
    change: { userId: string; firstName?: string | undefined; lastName?: string | undefined },
    context: CallContext,
  ): Promise<User>;
  deleteAccount(request: ByPassword & { password: string }, context: CallContext): Promise<EndedSessions>;
  /** Ends all sessions of a user, or all but one, and every login under way. */
  endOwnSessions(
    which: { userId: string; exceptSessionId?: string },
    context: CallContext,
  ): Promise<EndedSessions>;
  changeEmail(
    change: ByPassword & { newEmail: string; password: string; sessionId: string },
    context: CallContext,
  ): Promise<void>;
  confirmEmailChange(link: ProvenLink, context: CallContext): Promise<User>;
  undoEmailChange(token: string, context: CallContext): Promise<EndedSessions>;
  undoAccessChange(token: string, context: CallContext): Promise<EndedSessions>;
  close(): void;
}

/** @param address `host:port` of identity-service. */
export function createAccountClient(address: string, certificate: ProcessCertificate): AccountClient {
  const client = createRpcClient(IdentityServiceClient, {
    address,
    service: "identity-service",
    certificate,
  });
  return {
    async verifyEmail(link, context) {
      return toUser((await callUnary(client, client.verifyEmail, link, context)).user);
    },
    disownAccount: (link, context) => callUnary(client, client.disownAccount, link, context),
    async resendVerification(asked, context) {
      await callUnary(client, client.resendVerification, asked, context);
    },
    async forgotPassword(asked, context) {
      await callUnary(client, client.forgotPassword, asked, context);
    },
    resetPassword: (reset, context) => callUnary(client, client.resetPassword, reset, context),
    changePassword: (change, context) => callUnary(client, client.changePassword, change, context),
    async changePasswordAtLogin(attempt, context) {
      const { completed } = await callUnary(client, client.changePasswordAtLogin, attempt, context);
      return toCompletedLogin(completed);
    },
    async updateProfile({ userId, firstName, lastName }, context) {
      const request = { userId, firstName, lastName };
      return toUser((await callUnary(client, client.updateProfile, request, context)).user);
    },
    deleteAccount: (request, context) => callUnary(client, client.deleteAccount, request, context),
    endOwnSessions: ({ userId, exceptSessionId = "" }, context) =>
      callUnary(client, client.endOwnSessions, { userId, exceptSessionId }, context),
    async changeEmail(change, context) {
      await callUnary(client, client.changeEmail, change, context);
    },
    async confirmEmailChange(link, context) {
      return toUser((await callUnary(client, client.confirmEmailChange, link, context)).user);
    },
    undoAccessChange: (token, context) => callUnary(client, client.undoAccessChange, { token }, context),
    undoEmailChange: (token, context) => callUnary(client, client.undoEmailChange, { token }, context),
    close: () => client.close(),
  };
}
