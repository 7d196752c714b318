import { z } from "zod";
import type { TokenVerifier } from "../../token-client/principal.ts";
import { clientIp } from "../edge/client-ip.ts";
import { clientOf } from "../edge/client-of.ts";
import { deviceTokenOf } from "../edge/device-cookie.ts";
import { success } from "../edge/envelope.ts";
import { principalOf } from "../edge/principal.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import type { AccountClient, EndedSessions } from "./account-client.ts";
import { accountDocs } from "./account-docs.ts";
import { emailField, nameField, newPasswordField, passwordField, tempTokenField } from "./body-fields.ts";
import { registerLinkRoutes } from "./link-routes.ts";
import { loginAnswer } from "./login-answer.ts";

const EmailBody = z.strictObject({ email: emailField });
const ChangePasswordBody = z.strictObject({ currentPassword: passwordField, newPassword: newPasswordField });
const ChangeAtLoginBody = z.strictObject({
  tempToken: tempTokenField,
  newPassword: newPasswordField,
});
const ProfileBody = z.strictObject({ firstName: nameField.optional(), lastName: nameField.optional() });
const DeleteBody = z.strictObject({ password: passwordField });
const ChangeEmailBody = z.strictObject({ newEmail: emailField, password: passwordField });

export interface AccountBackends {
  accounts: AccountClient;
  verifier: Pick<TokenVerifier, "verify" | "refuseSession">;
}

/** What the owner of an account does with it. Sessions that a call ends are refused here at once. */
export function registerAccountRoutes(app: GatewayApp, { accounts, verifier }: AccountBackends): void {
  const refuse = ({ endedSessionIds }: EndedSessions) => {
    for (const id of endedSessionIds) verifier.refuseSession(id);
  };
  registerLinkRoutes(app, accounts, verifier);

  app.post(
    "/auth/resend-verification",
    {
      config: { auth: "public", action: "auth.resend_verification", docs: accountDocs.resendVerification },
      schema: { body: EmailBody },
    },
    async (request) => {
      const asked = { clientIp: clientIp(request), deviceToken: deviceTokenOf(request) };
      await accounts.resendVerification({ ...request.body, ...asked }, request.call);
      return success({}, "If the address has an account and is not confirmed, a mail is on its way.");
    },
  );

  app.post(
    "/auth/forgot-password",
    {
      config: { auth: "public", action: "auth.forgot_password", docs: accountDocs.forgotPassword },
      schema: { body: EmailBody },
    },
    async (request) => {
      const asked = { clientIp: clientIp(request), deviceToken: deviceTokenOf(request) };
      await accounts.forgotPassword({ ...request.body, ...asked }, request.call);
      return success({}, "If the address has an account, a mail is on its way.");
    },
  );

  app.post(
    "/auth/change-password",
    {
      config: { auth: "authenticated", action: "auth.change_password", docs: accountDocs.changePassword },
      schema: { body: ChangePasswordBody },
    },
    async (request) => {
      const { userId, sessionId } = principalOf(request);
      refuse(
        await accounts.changePassword(
          { ...request.body, userId, sessionId, clientIp: clientIp(request) },
          request.call,
        ),
      );
      return success({}, "The password was changed; your other sessions have ended.");
    },
  );

  app.post(
    "/auth/login/change-password",
    {
      config: {
        auth: "public",
        action: "auth.login.change_password",
        docs: accountDocs.changePasswordAtLogin,
      },
      schema: { body: ChangeAtLoginBody },
    },
    async (request, reply) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      return loginAnswer(request, reply, await accounts.changePasswordAtLogin(attempt, request.call));
    },
  );

  app.patch(
    "/auth/me",
    {
      config: { auth: "authenticated", action: "auth.update_profile", docs: accountDocs.updateAccount },
      schema: { body: ProfileBody },
    },
    async (request) => {
      const { userId } = principalOf(request);
      const user = await accounts.updateProfile({ ...request.body, userId }, request.call);
      return success({ user }, "Your account.");
    },
  );

  app.delete(
    "/auth/me",
    {
      config: { auth: "authenticated", action: "auth.delete_account", docs: accountDocs.deleteAccount },
      schema: { body: DeleteBody },
    },
    async (request) => {
      const { userId, sessionId } = principalOf(request);
      refuse(
        await accounts.deleteAccount({ ...request.body, userId, clientIp: clientIp(request) }, request.call),
      );
      verifier.refuseSession(sessionId);
      return success({}, "The account was deleted.");
    },
  );

  app.post(
    "/auth/change-email",
    {
      config: { auth: "authenticated", action: "auth.change_email", docs: accountDocs.changeEmail },
      schema: { body: ChangeEmailBody },
    },
    async (request) => {
      const { userId, sessionId } = principalOf(request);
      const change = { ...request.body, userId, sessionId, clientIp: clientIp(request) };
      await accounts.changeEmail(change, request.call);
      return success({}, "A mail is on its way to the new address; it changes when it is confirmed.");
    },
  );
}
