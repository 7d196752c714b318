import type { FastifyRequest } from "fastify";
import { validate as isUuid } from "uuid";
import { z } from "zod";
import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import { filterText } from "#audit-client/stream/record-reading.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import type { NotedCheckpoint } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { nextCursorField, toUser } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import type { NoteReading } from "../edge/audit.ts";
import { actorOf, principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";
import { pageQuery } from "./admin-fields.ts";
import { auditEntryAnswer, toAuditEntry } from "./audit-entry-answer.ts";
import { assertMayNamePeople, peopleAnswer, peopleField, peopleIn } from "./audit-people.ts";
import {
  auditFilterFields,
  auditTimeField,
  logField,
  sequenceField,
  toEntryFilter,
} from "./audit-query-fields.ts";

const AuditQuery = z.strictObject({
  ...auditFilterFields,
  requestId: z.uuid().toLowerCase().optional(),
  from: auditTimeField.optional(),
  to: auditTimeField.optional(),
  people: peopleField,
  ...pageQuery,
});

const size = sequenceField(1).meta({ id: "Size" });

const HASH = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
const hash = textLike(HASH, "Base64.").meta({ id: "Hash" });
const hashes = z
  .array(hash)
  .meta({ id: "TreeProof", description: "From the leaf up (RFC 9162, section 2.1)." });
const checkpoint = textLike(
  `gatehouse.example/audit\n1042\n${HASH}\n\n— gatehouse.example/audit AAAAAA==\n`,
  "A signed note (C2SP tlog-checkpoint).",
).meta({ id: "Checkpoint" });

const leafProof = {
  leafData: textLike("{}", "Canonical JSON whose hash is the leaf's."),
  leafHash: hash,
  inclusionProof: hashes,
  checkpoint,
};

const provenEntry = z.strictObject({
  entry: auditEntryAnswer,
  proof: z
    .strictObject({
      ...leafProof,
      noted: z.strictObject(leafProof).nullable().meta({
        description:
          "Of an entry outside log 0: the entry of log 0 whose `reason` is size and root hash of `checkpoint`. Null for some seconds.",
      }),
    })
    .nullable()
    .meta({ description: "Null while no checkpoint covers the entry: about a second." }),
});

interface AuditRouteDeps extends Pick<Backends, "auditQuery" | "users"> {
  access: AccessRules;
  noteReading: NoteReading;
  adminPolicy: AdminPolicy;
}

export function registerAuditRoutes(app: GatewayApp, deps: AuditRouteDeps): void {
  const { auditQuery, noteReading, adminPolicy } = deps;
  const policy = adminPolicy("audit:read");
  const route = routeIn(app, "Audit log");

  route("searchAuditLog", "GET", "/admin/audit", {
    summary: "Search the audit log",
    description:
      "`from` is inclusive, `to` exclusive. `actor` is a user's id, `client:<id>` of a service that introspects tokens, or " +
      "`operator:<name>` or `auditor:<name>` of a certificate. Each call leaves one entry, `audit.searched`, with its filter. A " +
      "caller with `audit:read:user` only must name a user as `actor`, and does not see what that user did in a role that may " +
      "administer more than the caller, or that has gone. With `users:read` too, `action=user.login_failed` and a user's id as `resource` " +
      "show why that user's logins failed, unless the user may administer more than the caller. `people=true` leaves no further entry.",
    policy: adminPolicy("audit:read:user"),
    schema: { querystring: AuditQuery },
    answers: answersWith(
      "A page of entries, newest first.",
      z.strictObject({
        entries: z.array(auditEntryAnswer),
        nextCursor: nextCursorField,
        people: peopleAnswer.optional(),
      }),
    ),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      const { requestId: call, cursor: _position, ...filter } = request.query;
      const maySee = await assertMaySearch(deps, request, filter);
      assertMayNamePeople(deps.access, request, filter);
      await noteReading(request, {
        action: "audit.searched",
        filter: filterText({ ...filter, request: call }),
      });
      const page = await auditQuery.searchEntries(toSearch(request.query), request.state.call);
      const entries = page.entries.map(toAuditEntry).filter(maySee);
      const people = filter.people && (await peopleIn(entries, deps.users, request.state.call));
      const found = { entries, nextCursor: page.nextCursor || null, ...(people && { people }) };
      return success(found, "Audit entries, newest first.");
    },
  });

  route("getAuditEntry", "GET", "/admin/audit/:id", {
    summary: "Read one entry, with the proof that it is in the log",
    policy,
    schema: { params: z.strictObject({ id: z.uuid().toLowerCase() }) },
    answers: answersWith("The entry.", provenEntry),
    codes: ["not_found", "audit_unavailable"],
    handler: async (request) => {
      await noteReading(request, { action: "audit.entry_read" });
      const found = await auditQuery.getEntry({ ...request.params, sequence: 0, log: 0 }, request.state.call);
      const noted = found.noted === undefined ? null : proofOf(found.noted);
      const entry = toAuditEntry(found.entry);
      return success(
        { entry, proof: found.checkpoint === "" ? null : { ...proofOf(found), noted } },
        "The entry, with the proof that it is in the log.",
      );
    },
  });

  route("getAuditCheckpoint", "GET", "/admin/audit/checkpoint", {
    summary: "Read the latest signed checkpoint",
    description: "Of log 0, which commits to the others, or of `log`. 404 while there is none yet.",
    policy,
    schema: { querystring: z.strictObject({ log: logField }) },
    answers: answersWith(
      "The checkpoint, and the key to verify it with.",
      z.strictObject({
        checkpoint,
        verifierKey: textLike("gatehouse.example/audit+00000000+AAAA"),
        logs: z
          .array(z.int())
          .meta({ description: "The numbers of all logs, ascending.", examples: [[0, 1]] }),
      }),
    ),
    codes: ["not_found"],
    handler: async (request) => {
      const { checkpoint, verifierKey, logs } = await auditQuery.getCheckpoint(
        { atLeastSize: 0, ...request.query },
        request.state.call,
      );
      return success({ checkpoint, verifierKey, logs }, "The latest signed checkpoint.");
    },
  });

  route("proveAuditInclusion", "GET", "/admin/audit/inclusion", {
    summary: "Prove that an entry is in the log",
    description: "404 for a tree that is larger than the log.",
    policy,
    schema: { querystring: z.strictObject({ sequence: size, treeSize: size, log: logField }) },
    answers: answersWith("The proof.", z.strictObject({ leafHash: hash, proof: hashes })),
    codes: ["not_found"],
    handler: async (request) => {
      const { leafHash, proof } = await auditQuery.proveInclusion(request.query, request.state.call);
      return success({ leafHash: base64(leafHash), proof: proof.map(base64) }, "The inclusion proof.");
    },
  });

  route("proveAuditConsistency", "GET", "/admin/audit/consistency", {
    summary: "Prove that the log has only grown",
    description: "404 for a tree that is larger than the log.",
    policy,
    schema: { querystring: z.strictObject({ from: size, to: size, log: logField }) },
    answers: answersWith("The proof.", z.strictObject({ proof: hashes })),
    codes: ["not_found"],
    handler: async (request) => {
      const { from: firstSize, to: secondSize, log } = request.query;
      const { proof } = await auditQuery.proveConsistency({ firstSize, secondSize, log }, request.state.call);
      return success({ proof: proof.map(base64) }, "The consistency proof.");
    },
  });
}

type Filter = Pick<z.output<typeof AuditQuery>, "action" | "resource" | "actor">;

/**
 * Here and not in audit-service, which has neither the roles nor the users.
 * @returns whether the caller may see an entry that was found.
 * @throws {DomainError} `validation_failed`, `forbidden`, `not_found`.
 */
async function assertMaySearch(
  { users, access }: Pick<AuditRouteDeps, "users" | "access">,
  request: FastifyRequest,
  filter: Filter,
): Promise<(entry: z.output<typeof auditEntryAnswer>) => boolean> {
  const actor = actorOf(principalOf(request));
  if (holdsPermission(access, actor, "audit:read")) return () => true;
  if (isFailedLoginsOf(filter)) {
    const { user } = await users.getManagedUser({ userId: filter.resource }, request.state.call);
    if (!access.mayActOn(actor, toUser(user?.user).role)) throw new DomainError("forbidden");
  } else assertOneUser(filter.actor);
  return ({ actor: { role = "" } }) =>
    (role === "" || access.isDefined(role)) && access.mayActOn(actor, role);
}

/** Nobody was proven to be the actor. */
function isFailedLoginsOf(filter: Filter): filter is Filter & { resource: string } {
  return filter.action === "user.login_failed" && isUuid(filter.resource);
}

/** @throws {DomainError} `validation_failed`. */
function assertOneUser(actor: string | undefined): void {
  if (isUuid(actor)) return;
  const message = "must be a user's id: the caller may read the entries of one user at a time";
  throw invalidField("actor", "required", message);
}

function toSearch(query: z.output<typeof AuditQuery>) {
  const { requestId = "", from, to, cursor = "", limit } = query;
  return { ...toEntryFilter(query), requestId, from, to, cursor, limit };
}

function proofOf({ leafData, leafHash, inclusionProof, checkpoint }: NotedCheckpoint) {
  return {
    leafData: Buffer.from(leafData).toString("utf8"),
    leafHash: base64(leafHash),
    inclusionProof: inclusionProof.map(base64),
    checkpoint,
  };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
