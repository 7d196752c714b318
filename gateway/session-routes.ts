import { z } from "zod";
import type { TokenVerifier } from "../token-client/principal.ts";
import type { AccountClient } from "./account-client.ts";
import { success } from "./envelope.ts";
import { principalOf } from "./principal.ts";
import type { GatewayApp } from "./request-state.ts";
import type { SessionClient } from "./session-client.ts";
import { sessionDocs } from "./session-docs.ts";

const LogoutBody = z
  .strictObject({ scope: z.enum(["session", "others", "all"]).default("session") })
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
      config: { auth: "authenticated", action: "auth.logout", docs: sessionDocs.logOut },
      schema: { body: LogoutBody },
    },
    async (request) => {
      const { userId, sessionId } = principalOf(request);
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
