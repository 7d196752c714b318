import { z } from "zod";
import { auditDocs } from "./audit-docs.ts";
import type { AuditQueryClient } from "./audit-query-client.ts";
import { success } from "./envelope.ts";
import { pageQuery } from "./page-query.ts";
import type { GatewayApp } from "./request-state.ts";

const text = z.string().min(1).max(200);
const time = z.iso
  .datetime({ offset: true, message: "must be an RFC 3339 time" })
  .transform((value) => new Date(value));

const AuditQuery = z.strictObject({
  actor: z.uuid().toLowerCase().optional(),
  action: text.optional(),
  resource: text.optional(),
  outcome: z.enum(["success", "failure", "unknown"]).optional(),
  requestId: z.uuid().toLowerCase().optional(),
  from: time.optional(),
  to: time.optional(),
  ...pageQuery,
});

/** Administration. This far: reading the audit log. */
export function registerAdminRoutes(app: GatewayApp, { auditQuery }: { auditQuery: AuditQueryClient }): void {
  app.get(
    "/admin/audit",
    {
      config: { auth: { roles: ["ADMIN", "AUDITOR"] }, docs: auditDocs.searchAuditLog },
      schema: { querystring: AuditQuery },
    },
    async (request) => {
      const page = await auditQuery.search(request.query, request.call);
      return success(page, "Audit entries, newest first.");
    },
  );
}
