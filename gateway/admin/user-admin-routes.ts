import { z } from "zod";
import { filterText, lookedFor } from "../../audit-client/record-reading.ts";
import type { TokenVerifier } from "../../token-client/principal.ts";
import { success } from "../edge/envelope.ts";
import type { NoteReading } from "../edge/note-reading.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { pageQuery } from "./page-query.ts";
import type { UserAdminClient } from "./user-admin-client.ts";
import { userAdminDocs } from "./user-admin-docs.ts";

const role = z.enum(["USER", "ADMIN", "AUDITOR"]);
const status = z.enum(["active", "disabled"]);

const UserQuery = z.strictObject({
  query: z
    .string()
    .min(3)
    .max(254)
    .optional()
    .meta({ description: "Three characters or more of a name or an address.", examples: ["ada"] }),
  role: role.optional(),
  status: status.optional(),
  ...pageQuery,
});
const UserParams = z.strictObject({ id: z.uuid().toLowerCase() });
const UserChange = z
  .strictObject({
    role: role.optional(),
    status: status.optional(),
    mustChangePassword: z.boolean().optional(),
  })
  .refine((body) => Object.values(body).some((value) => value !== undefined), "must change something")
  .meta({ minProperties: 1 });

export interface UserAdminBackends {
  users: UserAdminClient;
  noteReading: NoteReading;
  verifier: Pick<TokenVerifier, "refuseSession">;
}

/** Administration of users. Sessions that a change ends are refused here at once, ahead of the stream. */
export function registerUserAdminRoutes(app: GatewayApp, backends: UserAdminBackends): void {
  const { users, noteReading, verifier } = backends;
  const auth = { roles: ["ADMIN"] } as const;
  const refuse = (sessionIds: readonly string[]) => {
    for (const id of sessionIds) verifier.refuseSession(id);
  };

  app.get(
    "/admin/users",
    { config: { auth, docs: userAdminDocs.listUsers }, schema: { querystring: UserQuery } },
    async (request) => {
      const { query = "", cursor: _position, ...filter } = request.query;
      const { address, ...typed } = lookedFor(query);
      await noteReading(request, {
        action: "user.listed",
        filter: filterText({ ...filter, ...typed }),
        ...(address !== undefined && { address }),
      });
      return success(await users.list(request.query, request.call), "Users, newest first.");
    },
  );

  app.get(
    "/admin/users/:id",
    { config: { auth, docs: userAdminDocs.getUser }, schema: { params: UserParams } },
    async (request) => {
      await noteReading(request, { action: "user.read" });
      const user = await users.get(request.params.id, request.call);
      return success({ user }, "The user.");
    },
  );

  app.patch(
    "/admin/users/:id",
    {
      config: { auth, action: "admin.users.update", docs: userAdminDocs.updateUser },
      schema: { params: UserParams, body: UserChange },
    },
    async (request) => {
      const access = { userId: request.params.id, ...request.body };
      const { user, endedSessionIds } = await users.setAccess(access, request.call);
      refuse(endedSessionIds);
      return success({ user }, "The user was changed.");
    },
  );

  app.delete(
    "/admin/users/:id",
    {
      config: { auth, action: "admin.users.delete", docs: userAdminDocs.deleteUser },
      schema: { params: UserParams },
    },
    async (request) => {
      refuse(await users.delete(request.params.id, request.call));
      return success({}, "The account is gone.");
    },
  );

  app.post(
    "/admin/users/:id/sessions/revoke",
    {
      config: { auth, action: "admin.users.revoke_sessions", docs: userAdminDocs.endUserSessions },
      schema: { params: UserParams },
    },
    async (request) => {
      const ended = await users.endSessions(request.params.id, request.call);
      refuse(ended);
      return success({ ended: ended.length }, "The user's sessions have ended.");
    },
  );

  app.post(
    "/admin/users/:id/mfa/reset",
    {
      config: { auth, action: "admin.users.reset_mfa", docs: userAdminDocs.resetUserMfa },
      schema: { params: UserParams },
    },
    async (request) => {
      refuse(await users.resetMfa(request.params.id, request.call));
      return success({}, "The user has no second factor any more.");
    },
  );
}
