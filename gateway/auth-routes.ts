import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError } from "../service-kit/errors.ts";
import { clientIp } from "./client-ip.ts";
import { success } from "./envelope.ts";
import { HTTP_CREATED } from "./http-errors.ts";
import type { IdentityClient, TokenPair } from "./identity-client.ts";
import { principalOf } from "./principal.ts";
import type { GatewayApp } from "./request-state.ts";
import type { SessionClient } from "./session-client.ts";
import { userAgent } from "./user-agent.ts";

/** A first check, wide enough for international addresses; identity-service has the last word. */
const EMAIL =
  /^(?!\.)(?!.*\.\.)[^\s@"\p{C}]{1,64}(?<!\.)@(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.)+[\p{L}\p{N}][\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}]$/u;
/** A name has something to read in it and nothing that does not print. */
const NAME = /^(?=.*[^\p{Z}])\P{C}+$/u;

const email = z.email({ pattern: EMAIL }).max(254);
const password = z.string().min(1).max(1_024);
const personName = z.string().min(1).max(100).regex(NAME, "must be printable text");

const RegisterBody = z.strictObject({ email, password, firstName: personName, lastName: personName });
const LoginBody = z.strictObject({ email, password });
/** Longer than any refresh token of ours; what is not one of ours is `refresh_token_invalid`. */
const RefreshBody = z.strictObject({ refreshToken: z.string().min(1).max(4_096) });

export interface AuthBackends {
  identity: IdentityClient;
  sessions: SessionClient;
}

/** Accounts and tokens: register, log in, refresh, and who one is. */
export function registerAuthRoutes(app: GatewayApp, { identity, sessions }: AuthBackends): void {
  app.post(
    "/auth/register",
    { config: { auth: "public", action: "auth.register" }, schema: { body: RegisterBody } },
    async (request, reply) => {
      const user = await identity.register(request.body, request.call);
      request.provenActor = { userId: user.id };
      reply.code(HTTP_CREATED);
      return success({ user }, "Registered.");
    },
  );

  app.post(
    "/auth/login",
    { config: { auth: "public", action: "auth.login" }, schema: { body: LoginBody } },
    async (request) => {
      const { tokens, user } = await identity.login({ ...request.body, ...clientOf(request) }, request.call);
      request.provenActor = { userId: user.id, role: user.role, sessionId: tokens.sessionId };
      return success({ ...tokenResponse(tokens), user }, "Logged in.");
    },
  );

  app.post(
    "/auth/refresh",
    { config: { auth: "public", action: "auth.refresh" }, schema: { body: RefreshBody } },
    async (request) => {
      const tokens = await sessions.refresh({ ...request.body, ...clientOf(request) }, request.call);
      request.provenActor = { userId: tokens.userId, sessionId: tokens.sessionId };
      return success(tokenResponse(tokens), "Refreshed.");
    },
  );

  app.get("/auth/me", { config: { auth: "authenticated" } }, async (request) => {
    const user = await identity.getUser(principalOf(request).userId, request.call);
    // The account is gone; its sessions are about to be.
    if (user === undefined) throw new DomainError("token_invalid");
    return success({ user }, "Your account.");
  });
}

function clientOf(request: FastifyRequest): { clientIp: string; userAgent: string } {
  return { clientIp: clientIp(request), userAgent: userAgent(request) };
}

function tokenResponse({ accessToken, refreshToken, expiresInS }: TokenPair) {
  return { accessToken, refreshToken, tokenType: "Bearer", expiresIn: expiresInS };
}
