import { z } from "zod";
import { DomainError } from "../../service-kit/errors.ts";
import { clientOf } from "../edge/client-of.ts";
import { deviceTokenOf } from "../edge/device-cookie.ts";
import { success } from "../edge/envelope.ts";
import { HTTP_CREATED } from "../edge/http-errors.ts";
import { principalOf } from "../edge/principal.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { authDocs } from "./auth-docs.ts";
import { emailField, nameField, newPasswordField, passwordField } from "./body-fields.ts";
import type { IdentityClient } from "./identity-client.ts";
import { loginAnswer } from "./login-answer.ts";
import type { SessionClient } from "./session-client.ts";
import { tokenResponse } from "./token-response.ts";

const RegisterBody = z.strictObject({
  email: emailField,
  password: newPasswordField,
  firstName: nameField,
  lastName: nameField.meta({ examples: ["Lovelace"] }),
});
const LoginBody = z.strictObject({ email: emailField, password: passwordField });
/** Longer than any refresh token of ours; what is not one of ours is `refresh_token_invalid`. */
const RefreshBody = z.strictObject({
  refreshToken: z
    .string()
    .min(1)
    .max(4_096)
    .meta({ examples: ["eyJhbGciOiJFZERTQSJ9.e30.AA"] }),
});

export interface AuthBackends {
  identity: IdentityClient;
  sessions: SessionClient;
}

/** Accounts and tokens: register, log in, refresh, and who one is. */
export function registerAuthRoutes(app: GatewayApp, { identity, sessions }: AuthBackends): void {
  app.post(
    "/auth/register",
    {
      config: { auth: "public", action: "auth.register", docs: authDocs.register },
      schema: { body: RegisterBody },
    },
    async (request, reply) => {
      const user = await identity.register(
        { ...request.body, clientIp: clientOf(request).clientIp },
        request.call,
      );
      request.provenActor = { userId: user.id };
      reply.code(HTTP_CREATED);
      return success({ user }, "Registered.");
    },
  );

  app.post(
    "/auth/login",
    { config: { auth: "public", action: "auth.login", docs: authDocs.logIn }, schema: { body: LoginBody } },
    async (request, reply) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      const result = await identity.login(attempt, request.call);
      return loginAnswer(request, reply, result);
    },
  );

  app.post(
    "/auth/refresh",
    {
      config: { auth: "public", action: "auth.refresh", docs: authDocs.refresh },
      schema: { body: RefreshBody },
    },
    async (request) => {
      const tokens = await sessions.refresh({ ...request.body, ...clientOf(request) }, request.call);
      request.provenActor = { userId: tokens.userId, sessionId: tokens.sessionId };
      return success(tokenResponse(tokens), "Refreshed.");
    },
  );

  app.get("/auth/me", { config: { auth: "authenticated", docs: authDocs.getAccount } }, async (request) => {
    const account = await identity.getUser(principalOf(request).userId, request.call);
    // The account is gone; its sessions are about to be.
    if (account === undefined) throw new DomainError("token_invalid");
    const { recoveryCodesLeft, ...user } = account;
    return success({ user, ...(user.mfaEnabled && { recoveryCodesLeft }) }, "Your account.");
  });
}
