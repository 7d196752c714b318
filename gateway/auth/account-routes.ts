import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { success } from "../edge/answers/envelope.ts";
import { clientIp, clientOf, ownerOf, principalOf } from "../edge/request/caller.ts";
import { deviceTokenOf } from "../edge/request/device-cookie.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { answersWith } from "../routing/route-docs.ts";
import { accountAnswer, deviceHeader, loginAnswers, loginHeaders, toUser } from "./answer-fields.ts";
import {
  emailField,
  languageField,
  lastNameField,
  nameField,
  newPasswordCodes,
  newPasswordField,
  OWN_LEVEL,
  passwordField,
  tempTokenField,
  timeZoneField,
} from "./body-fields.ts";
import { type AuthDeps, endReplacedSession, loginAnswer } from "./login-answer.ts";

const EmailBody = z.strictObject({ email: emailField });

const mailAnswer = answersWith("Always the same answer, whether there is such an account or not.");

export function registerAccountRoutes(app: GatewayApp, deps: AuthDeps): void {
  const { identity, verifier } = deps;
  const route = routeIn(app, "Accounts");
  const asking = (request: FastifyRequest) => ({
    clientIp: clientIp(request),
    deviceToken: deviceTokenOf(request),
  });

  route("resendVerification", "POST", "/auth/resend-verification", {
    summary: "Ask for another mail that proves the address",
    policy: { auth: "public", limitClass: "login", action: "auth.resend_verification", cookies: "device" },
    headers: deviceHeader,
    schema: { body: EmailBody },
    answers: mailAnswer,
    codes: ["busy"],
    handler: async (request) => {
      await identity.resendVerification({ ...request.body, ...asking(request) }, request.state.call);
      return success({}, "If the address has an account and is not confirmed, a mail is on its way.");
    },
  });

  route("forgotPassword", "POST", "/auth/forgot-password", {
    summary: "Ask for a mail with a link to a new password",
    policy: { auth: "public", limitClass: "login", action: "auth.forgot_password", cookies: "device" },
    headers: deviceHeader,
    schema: { body: EmailBody },
    answers: mailAnswer,
    codes: ["busy"],
    handler: async (request) => {
      await identity.forgotPassword({ ...request.body, ...asking(request) }, request.state.call);
      return success({}, "If the address has an account, a mail is on its way.");
    },
  });

  route("changePassword", "POST", "/auth/change-password", {
    summary: "Change one's password",
    description: `Every other session ends. ${OWN_LEVEL}`,
    policy: { auth: "authenticated", limitClass: "account", action: "auth.change_password" },
    schema: { body: z.strictObject({ currentPassword: passwordField, newPassword: newPasswordField }) },
    answers: answersWith("It was changed."),
    codes: ["step_up_required", "invalid_credentials", ...newPasswordCodes, "busy"],
    handler: async (request) => {
      const change = { ...request.body, ...ownerOf(request) };
      const { endedSessionIds } = await identity.changePassword(change, request.state.call);
      for (const id of endedSessionIds) verifier.refuseSession(id);
      return success({}, "The password was changed; your other sessions have ended.");
    },
  });

  routeIn(app, "Logins")("changePasswordAtLogin", "POST", "/auth/login/change-password", {
    summary: "Log in: the new password",
    description: "For a login that answered `requirePasswordChange`.",
    policy: {
      auth: "public",
      limitClass: "login",
      action: "auth.login.change_password",
      cookies: "session",
      issuesTokens: true,
    },
    headers: deviceHeader,
    schema: { body: z.strictObject({ tempToken: tempTokenField, newPassword: newPasswordField }) },
    answers: answersWith("A session.", loginAnswers.afterPasswordChange, loginHeaders),
    codes: [
      "password_change_token_invalid",
      "role_not_defined",
      "password_unchanged",
      ...newPasswordCodes,
      "busy",
    ],
    identify: async (request) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      const answer = await identity.changePasswordAtLogin(attempt, request.state.call);
      return endReplacedSession(deps, request, loginAnswer(answer.result?.result));
    },
  });

  route("updateAccount", "PATCH", "/auth/me", {
    summary: "Change one's names, language or time zone",
    description: "What is absent stays. An empty text takes away what may be absent.",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.update_profile" },
    schema: {
      body: z.strictObject({
        firstName: nameField.optional(),
        lastName: lastNameField.optional(),
        language: languageField.optional(),
        timeZone: timeZoneField.optional(),
      }),
    },
    answers: answersWith("The account as it is now.", accountAnswer),
    codes: ["not_found"],
    handler: async (request) => {
      const { userId } = principalOf(request);
      const { user } = await identity.updateProfile({ ...request.body, userId }, request.state.call);
      return success({ user: toUser(user) }, "Your account.");
    },
  });

  route("deleteAccount", "DELETE", "/auth/me", {
    summary: "Delete one's account",
    description: `Its sessions end. ${OWN_LEVEL}`,
    policy: { auth: "authenticated", limitClass: "account", action: "auth.delete_account" },
    schema: { body: z.strictObject({ password: passwordField }) },
    answers: answersWith("It is gone."),
    codes: ["step_up_required", "invalid_credentials", "last_admin", "busy"],
    handler: async (request) => {
      const { sessionId, ...owner } = ownerOf(request);
      const deletion = { ...request.body, ...owner };
      const { endedSessionIds } = await identity.deleteAccount(deletion, request.state.call);
      for (const id of [...endedSessionIds, sessionId]) verifier.refuseSession(id);
      return success({}, "The account was deleted.");
    },
  });

  route("changeEmail", "POST", "/auth/change-email", {
    summary: "Ask for another address",
    description: `A mail goes to the new address; it changes when that is confirmed. ${OWN_LEVEL}`,
    policy: { auth: "authenticated", limitClass: "account", action: "auth.change_email" },
    schema: { body: z.strictObject({ newEmail: emailField, password: passwordField }) },
    answers: answersWith("A mail is on its way."),
    codes: ["step_up_required", "invalid_credentials", "busy"],
    handler: async (request) => {
      const change = { ...request.body, ...ownerOf(request) };
      await identity.changeEmail(change, request.state.call);
      return success({}, "A mail is on its way to the new address; it changes when it is confirmed.");
    },
  });
}
