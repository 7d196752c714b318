import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { TokenVerifier } from "../../token-client/principal.ts";
import { success } from "../edge/envelope.ts";
import { principalOf } from "../edge/principal.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import type { AccountClient } from "./account-client.ts";
import type { SessionClient } from "./session-client.ts";
import { sessionDocs } from "./session-docs.ts";

const LogoutBody = z
  .strictObject({
    scope: z.enum(["session", "others", "all"]).default("session"),
    refreshToken: z
      .string()
      .min(1)
      .max(4_096)
      .optional()
      .meta({ description: "In place of an access token that has expired.", examples: ["refresh.jwt.text"] }),
  })
  .default({ scope: "session" });
const SessionParams = z.strictObject({ id: z.uuid().toLowerCase() });

export interface SessionBackends {
  sessions: SessionClient;
  accounts: Pick<AccountClient, "endOwnSessions">;
  verifier: Pick<TokenVerifier, "refuseSession">;
}

/** A user's sessions: log out, list, end one. What has ended is refused here at once, ahead of the stream. */
export function registerSessionRoutes(
  app: GatewayApp,
  { sessions, accounts, verifier }: SessionBackends,
): void {
  app.post(
    "/auth/logout",
    {
      config: {
        auth: "authenticated",
        action: "auth.logout",
        orRefreshToken: true,
        docs: sessionDocs.logOut,
      },
      schema: { body: LogoutBody },
      // Before the audit intent, and after the body has been checked.
      preValidation: async (request) => {
        const { tokenFailure, call } = request;
        if (tokenFailure === null) return;
        const { refreshToken } = request.body as z.output<typeof LogoutBody>;
        if (refreshToken === undefined) throw tokenFailure;
        request.provenActor = await sessions.prove(refreshToken, call);
      },
    },
    async (request) => {
      const { userId, sessionId } = callerOf(request);
      const { scope } = request.body;
      if (scope === "session") {
        await sessions.revoke({ sessionId, userId, reason: "logout" }, request.call);
      } else {
        const kept = scope === "others" ? { exceptSessionId: sessionId } : {};
        // By identity-service: logins that are under way end with the sessions.
        const { endedSessionIds } = await accounts.endOwnSessions({ userId, ...kept }, request.call);
        for (const id of endedSessionIds) verifier.refuseSession(id);
      }
      if (scope !== "others") verifier.refuseSession(sessionId);
      return success({}, "Logged out.");
    },
  );

  app.get(
    "/auth/sessions",
    { config: { auth: "authenticated", docs: sessionDocs.listSessions } },
    async (request) => {
      const { userId, sessionId } = principalOf(request);
      const found = await sessions.list(userId, request.call);
      const list = found.map(({ id, ...rest }) => ({ id, current: id === sessionId, ...rest }));
      return success({ sessions: list }, "Your sessions.");
    },
  );

  app.delete(
    "/auth/sessions/:id",
    {
      config: { auth: "authenticated", action: "auth.session_end", docs: sessionDocs.endSession },
      schema: { params: SessionParams },
    },
    async (request) => {
      const { userId } = principalOf(request);
      const { id: sessionId } = request.params;
      await sessions.revoke({ sessionId, userId, reason: "session_ended" }, request.call);
      verifier.refuseSession(sessionId);
      return success({}, "The session has ended.");
    },
  );
}

/** Whom the access token names, or the refresh token. */
function callerOf(request: FastifyRequest): { userId: string; sessionId: string } {
  const { userId, sessionId } = request.provenActor ?? {};
  return userId === undefined || sessionId === undefined ? principalOf(request) : { userId, sessionId };
}
