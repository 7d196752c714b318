import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";
import type { TrustedDevice } from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { Session } from "#proto/gatehouse/token/v1/session_service.ts";
import { success } from "../edge/answers/envelope.ts";
import { dropRefreshToken, isBrowserSession, keptRefreshToken } from "../edge/request/browser-session.ts";
import { ownerOf, principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { optional, textField, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { idField, sessionCookieHeader, timeField } from "./answer-fields.ts";
import { OWN_LEVEL } from "./body-fields.ts";
import type { AuthDeps } from "./login-answer.ts";

const scope = z.enum(["session", "others", "all"]).default("session");
const LogoutBody = z
  .strictObject({
    scope,
    refreshToken: optional(
      textField(1, 4_096, {
        description: "In place of an access token that has expired.",
        examples: ["refresh.jwt.text"],
      }),
    ),
  })
  .default({ scope: "session" });
const BrowserLogoutBody = z.strictObject({ scope }).default({ scope: "session" });

export const sessionAnswer = z
  .strictObject({
    id: idField,
    current: z.boolean().meta({ description: "Whether it is the one that asks." }),
    createdAt: timeField,
    lastUsedAt: timeField,
    expiresAt: timeField,
    ip: textLike("192.0.2.7"),
    userAgent: textLike("Mozilla/5.0"),
    amr: z.array(textLike("pwd")).meta({ description: "How its user was authenticated (RFC 8176)." }),
  })
  .meta({ id: "Session" });

const trustedDeviceAnswer = z
  .strictObject({
    id: idField,
    createdAt: timeField,
    lastUsedAt: timeField,
    expiresAt: timeField,
    ip: textLike("192.0.2.7"),
    userAgent: textLike("Mozilla/5.0"),
  })
  .meta({ id: "TrustedDevice", description: "Its logins need no code of the second factor." });

const idParams = z.strictObject({ id: z.uuid().toLowerCase() });

export function registerSessionRoutes(app: GatewayApp, { identity, sessions, verifier }: AuthDeps): void {
  const route = routeIn(app, "Logins");

  route("logOut", "POST", "/auth/logout", {
    summary: "Log out",
    description:
      "Ends this session, all others, or all. Their access tokens are refused at once, and what was begun in them (a change " +
      "of address, the linking of a provider) does not happen. With `others` and `all` logins that are under way end too. " +
      "Where the access token has expired, the newest refresh token in the body proves the session. With " +
      "`Gatehouse-Client: browser` it comes from the cookie `__Host-gatehouse-refresh` instead, which ends with the session; " +
      "409 `conflict` if an access token is of another session.",
    policy: {
      auth: "authenticated",
      limitClass: "logout",
      action: "auth.logout",
      orTokenInBody: "refreshToken",
      cookies: "session",
    },
    schema: { body: LogoutBody, browserBody: BrowserLogoutBody },
    answers: answersWith("Logged out.", undefined, sessionCookieHeader),
    codes: ["refresh_token_invalid", "conflict"],
    proof: {
      // Runs after the validation of the body.
      hook: "preValidation",
      prove: async (request) => {
        const { refusal, access, call } = request.state;
        const refreshToken = refreshTokenIn(request);
        if (refusal !== null && refreshToken === "") throw refusal.error;
        if (refusal === null && (refreshToken === "" || !isBrowserSession(request))) return null;
        const proven = await sessions
          .proveRefreshToken({ refreshToken, confirmation: call.proven }, call)
          .catch((error: unknown) => {
            // The access token is enough, and the cookie goes.
            if (access !== null && isRefused(error)) return null;
            throw error;
          });
        if (proven === null) return null;
        const { userId, sessionId } = proven;
        if (userId === "" || sessionId === "")
          throw new Error("token-service sent a proof without a session");
        if (access !== null && access.principal.sessionId !== sessionId)
          throw new DomainError("conflict", "The access token and the cookie are of two sessions.");
        return { userId, sessionId };
      },
    },
    handler: async (request, reply) => {
      const { userId, sessionId } = callerOf(request);
      const { scope } = request.body;
      if (scope === "session") {
        await sessions.revokeSession({ sessionId, userId, reason: "logout" }, request.state.call);
      } else {
        const exceptSessionId = scope === "others" ? sessionId : "";
        // identity-service also ends logins in progress.
        const { endedSessionIds } = await identity.endOwnSessions(
          { userId, exceptSessionId },
          request.state.call,
        );
        for (const id of endedSessionIds) verifier.refuseSession(id);
      }
      if (scope !== "others") {
        verifier.refuseSession(sessionId);
        if (isBrowserSession(request)) dropRefreshToken(reply);
      }
      return success({}, "Logged out.");
    },
  });

  route("listSessions", "GET", "/auth/sessions", {
    summary: "List one's sessions and trusted devices",
    policy: { auth: "authenticated", limitClass: "account" },
    answers: answersWith(
      "The live sessions, and the devices whose logins need no code; newest first.",
      z.strictObject({ sessions: z.array(sessionAnswer), trustedDevices: z.array(trustedDeviceAnswer) }),
    ),
    handler: async (request) => {
      const { userId, sessionId } = principalOf(request);
      const { call } = request.state;
      const [found, trusted] = await Promise.all([
        sessions.listSessions({ userId }, call),
        identity.listTrustedDevices({ userId }, call),
      ]);
      const list = found.sessions.map((session) => toSession(session, sessionId));
      const trustedDevices = trusted.trustedDevices.map(toTrustedDevice);
      return success({ sessions: list, trustedDevices }, "Your sessions.");
    },
  });

  route("endSession", "DELETE", "/auth/sessions/:id", {
    summary: "End a session",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.session_end" },
    schema: { params: idParams },
    answers: answersWith("It has ended."),
    codes: ["not_found"],
    handler: async (request) => {
      const { userId } = principalOf(request);
      const { id: sessionId } = request.params;
      await sessions.revokeSession({ sessionId, userId, reason: "session_ended" }, request.state.call);
      verifier.refuseSession(sessionId);
      return success({}, "The session has ended.");
    },
  });

  route("removeTrustedDevice", "DELETE", "/auth/trusted-devices/:id", {
    summary: "End the trust in a device",
    description: `Its next login needs a code again. Its sessions go on. ${OWN_LEVEL}`,
    policy: { auth: "authenticated", limitClass: "account", action: "auth.trusted_device_remove" },
    schema: { params: idParams },
    answers: answersWith("It is not trusted any more."),
    codes: ["step_up_required", "not_found"],
    handler: async (request) => {
      const which = { ...ownerOf(request), trustedDeviceId: request.params.id };
      await identity.removeTrustedDevice(which, request.state.call);
      return success({}, "The device is not trusted any more.");
    },
  });
}

/** Empty if there is none. */
function refreshTokenIn(request: FastifyRequest): string {
  if (isBrowserSession(request)) return keptRefreshToken(request);
  const { refreshToken = "" } = request.body as z.output<typeof LogoutBody>;
  return refreshToken;
}

function isRefused(error: unknown): boolean {
  return error instanceof DomainError && error.code === "refresh_token_invalid";
}

function callerOf(request: FastifyRequest): { userId: string; sessionId: string } {
  const { userId, sessionId } = request.state.proof?.actor ?? {};
  return userId === undefined || sessionId === undefined ? principalOf(request) : { userId, sessionId };
}

export function toSession(session: Session, currentId: string) {
  const { id, createdAt, lastUsedAt, expiresAt, ip, userAgent, amr } = session;
  if (createdAt === undefined || lastUsedAt === undefined || expiresAt === undefined) {
    throw new Error("token-service sent a session without times");
  }
  return { id, current: id === currentId, createdAt, lastUsedAt, expiresAt, ip, userAgent, amr };
}

function toTrustedDevice(device: TrustedDevice) {
  const { id, createdAt, lastUsedAt, expiresAt, clientIp: ip, userAgent } = device;
  if (createdAt === undefined || lastUsedAt === undefined || expiresAt === undefined) {
    throw new Error("identity-service sent a trusted device without times");
  }
  return { id, createdAt, lastUsedAt, expiresAt, ip, userAgent };
}
