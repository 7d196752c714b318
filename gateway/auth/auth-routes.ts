import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";
import { success } from "../edge/answers/envelope.ts";
import { HTTP_CREATED } from "../edge/answers/http-errors.ts";
import {
  deviceCookieOf,
  isBrowserSession,
  keptRefreshToken,
  keptRefreshTokens,
} from "../edge/request/browser-session.ts";
import { acceptedLanguage, clientIp, clientOf, principalOf } from "../edge/request/caller.ts";
import { deviceTokenOf } from "../edge/request/device-cookie.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, optional, textField, textLike } from "../routing/fields.ts";
import { answer, answersWith } from "../routing/route-docs.ts";
import {
  accountAnswer,
  deviceHeader,
  loginAnswers,
  loginHeaders,
  sessionCookieHeader,
  timeField,
  tokenFields,
  toUser,
  userAnswer,
} from "./answer-fields.ts";
import {
  emailField,
  languageField,
  lastNameField,
  nameField,
  newPasswordCodes,
  newPasswordField,
  passwordField,
  timeZoneField,
} from "./body-fields.ts";
import { type AuthDeps, endReplacedSession, loginAnswer } from "./login-answer.ts";

const RegisterBody = z.strictObject({
  email: emailField,
  password: newPasswordField,
  firstName: nameField,
  lastName: lastNameField.default(""),
  language: languageField.optional(),
  timeZone: timeZoneField.optional(),
});
/** Longer than any refresh token. Another text is `refresh_token_invalid`, not `validation_failed`. */
const RefreshBody = z.strictObject({
  refreshToken: textField(1, 4_096, { examples: ["eyJhbGciOiJFZERTQSJ9.e30.AA"] }),
});

export function registerAuthRoutes(app: GatewayApp, deps: AuthDeps): void {
  const { identity, sessions, access } = deps;
  const accountRoute = routeIn(app, "Accounts");
  const loginRoute = routeIn(app, "Logins");

  accountRoute("register", "POST", "/auth/register", {
    summary: "Register",
    description:
      "A mail with a link that proves the address is on its way. A gateway that does not disclose whether an address " +
      "has an account answers 201 for one that has, and mails its owner.",
    policy: { auth: "public", limitClass: "login", action: "auth.register" },
    schema: { body: RegisterBody },
    answers: { 201: answer("The new account.", accountAnswer) },
    codes: ["email_already_registered", ...newPasswordCodes, "busy"],
    identify: async (request, reply) => {
      const { language = acceptedLanguage(request), timeZone = "", ...person } = request.body;
      const registration = { ...person, language, timeZone, clientIp: clientIp(request) };
      const user = toUser((await identity.register(registration, request.state.call)).user);
      reply.code(HTTP_CREATED);
      return { body: success({ user }, "Registered."), actor: { userId: user.id } };
    },
  });

  loginRoute("logIn", "POST", "/auth/login", {
    summary: "Log in",
    description:
      "An unknown address, a wrong password, a disabled and a locked account get the same answer; after many from one " +
      "network at one address, `details.retryAfter` says how many seconds to wait. A right password " +
      "may need a second step: `requireMfa` or `requirePasswordChange`.",
    policy: {
      auth: "public",
      limitClass: "login",
      action: "auth.login",
      cookies: "session",
      issuesTokens: true,
    },
    headers: deviceHeader,
    schema: { body: z.strictObject({ email: emailField, password: passwordField }) },
    answers: answersWith("A session, or what is missing to one.", loginAnswers.afterPassword, loginHeaders),
    codes: ["invalid_credentials", "email_not_verified", "role_not_defined", "busy"],
    identify: async (request) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      const { result } = await identity.login(attempt, request.state.call);
      return endReplacedSession(deps, request, loginAnswer(result));
    },
  });

  loginRoute("refresh", "POST", "/auth/refresh", {
    summary: "Refresh the tokens",
    description:
      "Gives a new pair; the refresh token that was sent is used up. If its answer was lost, the same call gives " +
      "the same successor; a token that was used before its successor was ends the session. With " +
      "`Gatehouse-Client: browser` the body is empty, and the token comes from the cookie `__Host-gatehouse-refresh`.",
    policy: {
      auth: "public",
      limitClass: "refresh",
      action: "auth.refresh",
      cookies: "session",
      issuesTokens: true,
    },
    schema: { body: RefreshBody, browserBody: z.strictObject({}).default({}) },
    answers: answersWith(
      "A new pair of tokens.",
      z.strictObject(tokenFields).meta({ id: "Tokens" }),
      sessionCookieHeader,
    ),
    codes: ["refresh_token_invalid", "refresh_token_reused", "device_proof_missing"],
    options: {
      // Asked before the intent: without a cookie nothing was tried, and the audit log has no entry.
      preValidation: async (request) => {
        if (isBrowserSession(request) && keptRefreshTokens(request).length === 0)
          throw new DomainError("refresh_token_invalid");
      },
    },
    identify: async (request) => {
      const { clientIp: ip, userAgent } = clientOf(request);
      const { body } = request;
      const { call } = request.state;
      const refreshToken = "refreshToken" in body ? body.refreshToken : keptRefreshToken(request);
      if (refreshToken === "") throw new DomainError("refresh_token_invalid");
      const { tokens } = await sessions.refreshSession(
        { refreshToken, ip, userAgent, confirmation: call.proven, deviceCookie: deviceCookieOf(request) },
        call,
      );
      if (tokens === undefined) throw new Error("token-service sent a refresh without tokens");
      const { userId, sessionId } = tokens;
      return { body: success({}, "Refreshed."), tokens, actor: { userId, sessionId } };
    },
  });

  accountRoute("getAccount", "GET", "/auth/me", {
    summary: "Who am I?",
    policy: { auth: "authenticated", limitClass: "account" },
    answers: answersWith(
      "The caller's account; `recoveryCodesLeft` only with a second factor.",
      z.strictObject({
        user: userAnswer,
        permissions: z.array(textLike("payments:read")).meta({
          description: "What the caller's role holds now. A change of the access file changes them.",
        }),
        recoveryCodesLeft: optional(intLike(10)),
        totpEnabled: z.boolean().meta({ description: "Whether an authenticator app is set up." }),
        totpSince: optional(timeField),
        hasPassword: z
          .boolean()
          .meta({ description: "False for an account that has only logins at providers, or passkeys." }),
        credentialsProven: z.boolean().meta({
          description:
            "False until a mailed link was used with the account's password or session: a second factor, passkeys and logins at " +
            "providers cannot be added before, also if `emailVerified`.",
        }),
      }),
    ),
    handler: async (request) => {
      const { userId, role } = principalOf(request);
      const account = await identity.getUser({ userId }, request.state.call).catch((error: unknown) => {
        // The account is deleted; its sessions end next.
        const isGone = error instanceof DomainError && error.code === "not_found";
        throw isGone ? new DomainError("token_invalid", undefined, { cause: error }) : error;
      });
      const user = toUser(account.user);
      const { recoveryCodesLeft, hasTotp: totpEnabled, totpSince, hasPassword, credentialsProven } = account;
      const permissions = [...access.permissionsOf(role)];
      const ways = {
        totpEnabled,
        ...(totpSince !== undefined && { totpSince: totpSince.toISOString() }),
        hasPassword,
        credentialsProven,
        ...(user.mfaEnabled && { recoveryCodesLeft }),
      };
      return success({ user, permissions, ...ways }, "Your account.");
    },
  });
}
