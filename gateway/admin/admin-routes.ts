import { z } from "zod";
import { filterText } from "../../audit-client/record-reading.ts";
import { success } from "../edge/envelope.ts";
import type { NoteReading } from "../edge/note-reading.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { auditDocs } from "./audit-docs.ts";
import type { AuditQueryClient } from "./audit-query-client.ts";
import { pageQuery } from "./page-query.ts";

const text = z.string().min(1).max(200);
const time = z.iso
  .datetime({ offset: true, message: "must be an RFC 3339 time" })
  .transform((value) => new Date(value));

/** A user's id in its one spelling, or the name of a service or of a person's certificate. */
const actor = z.union([
  z.uuid().toLowerCase(),
  z
    .string()
    .regex(
      /^(client|operator|auditor):[A-Za-z0-9._-]{1,64}$/,
      "must be a user's id, client:<id>, operator:<name> or auditor:<name>",
    ),
]);

const AuditQuery = z.strictObject({
  actor: actor.optional(),
  action: text.optional(),
  resource: text.optional(),
  outcome: z.enum(["success", "failure", "unknown"]).optional(),
  requestId: z.uuid().toLowerCase().optional(),
  from: time.optional(),
  to: time.optional(),
  ...pageQuery,
});

const EntryParams = z.strictObject({ id: z.uuid().toLowerCase() });

const size = z
  .string()
  .regex(/^[1-9]\d{0,15}$/, "must be a whole number from 1")
  .transform(Number)
  .pipe(z.int())
  // As a client sees it: a number, although a query is text.
  .meta({ type: "integer", pattern: undefined, minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const InclusionQuery = z.strictObject({ sequence: size, treeSize: size });
const ConsistencyQuery = z.strictObject({ from: size, to: size });

/** Reading the audit log, and what proves it. */
export function registerAdminRoutes(
  app: GatewayApp,
  { auditQuery, noteReading }: { auditQuery: AuditQueryClient; noteReading: NoteReading },
): void {
  const auth = { roles: ["ADMIN", "AUDITOR"] } as const;

  app.get(
    "/admin/audit",
    { config: { auth, docs: auditDocs.searchAuditLog }, schema: { querystring: AuditQuery } },
    async (request) => {
      const { requestId: call, cursor: _position, ...filter } = request.query;
      await noteReading(request, {
        action: "audit.searched",
        filter: filterText({ ...filter, request: call }),
      });
      const page = await auditQuery.search(request.query, request.call);
      return success(page, "Audit entries, newest first.");
    },
  );

  app.get(
    "/admin/audit/:id",
    { config: { auth, docs: auditDocs.getAuditEntry }, schema: { params: EntryParams } },
    async (request) => {
      await noteReading(request, { action: "audit.entry_read" });
      const found = await auditQuery.get(request.params.id, request.call);
      return success(found, "The entry, with the proof that it is in the log.");
    },
  );

  app.get(
    "/admin/audit/checkpoint",
    { config: { auth, docs: auditDocs.getAuditCheckpoint } },
    async (request) => success(await auditQuery.checkpoint(request.call), "The latest signed checkpoint."),
  );

  app.get(
    "/admin/audit/inclusion",
    { config: { auth, docs: auditDocs.proveAuditInclusion }, schema: { querystring: InclusionQuery } },
    async (request) => {
      const { sequence, treeSize } = request.query;
      return success(
        await auditQuery.proveInclusion(sequence, treeSize, request.call),
        "The inclusion proof.",
      );
    },
  );

  app.get(
    "/admin/audit/consistency",
    { config: { auth, docs: auditDocs.proveAuditConsistency }, schema: { querystring: ConsistencyQuery } },
    async (request) => {
      const { from, to } = request.query;
      const proof = await auditQuery.proveConsistency(from, to, request.call);
      return success({ proof }, "The consistency proof.");
    },
  );
}
