import type { FastifyRequest } from "fastify";
import { validate as isUuid } from "uuid";
import { z } from "zod";
import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import { filterText } from "#audit-client/stream/record-reading.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import { UserSort, UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { idField, nextCursorField, toUser } from "../auth/answer-fields.ts";
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
import { auditFilterFields, auditTimeField, sequenceField, toEntryFilter } from "./audit-query-fields.ts";

const AuditQuery = z.strictObject({
  ...auditFilterFields,
  requestId: z.uuid().toLowerCase().optional(),
  from: auditTimeField.optional(),
  to: auditTimeField.optional(),
  people: z
    .enum(["true"])
    .optional()
    .meta({ description: "With `people` in the answer, which needs `users:read`." }),
  ...pageQuery,
});

/** As many as one call of identity-service answers: all of an ordinary page. */
const MAX_PEOPLE = 100;
const PEOPLE_BUDGET_MS = 1_000;

const peopleAnswer = z.array(z.strictObject({ id: idField, email: textLike("ada@example.com") })).meta({
  description: `Of the first ${MAX_PEOPLE} ids in \`actor.userId\` and \`resource\`, those that are accounts now. Absent while they cannot be read.`,
});

const size = sequenceField(1);

const HASH = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
const hash = textLike(HASH, "Base64.");
const hashes = z.array(hash).meta({ description: "From the leaf up (RFC 9162, section 2.1)." });
const checkpoint = textLike(
  `gatehouse.example/audit\n1042\n${HASH}\n\n— gatehouse.example/audit AAAAAA==\n`,
  "A signed note (C2SP tlog-checkpoint).",
);

const provenEntry = z.strictObject({
  entry: auditEntryAnswer,
  proof: z
    .strictObject({
      leafData: textLike("{}", "Canonical JSON whose hash is the leaf's."),
      leafHash: hash,
      inclusionProof: hashes,
      checkpoint,
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
      if (filter.people && !holdsPermission(deps.access, actorOf(principalOf(request)), "users:read"))
        throw new DomainError("forbidden");
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
      const found = await auditQuery.getEntry({ ...request.params, sequence: 0 }, request.state.call);
      const { leafData, leafHash, inclusionProof, checkpoint } = found;
      const proof = {
        leafData: Buffer.from(leafData).toString("utf8"),
        leafHash: base64(leafHash),
        inclusionProof: inclusionProof.map(base64),
        checkpoint,
      };
      const entry = toAuditEntry(found.entry);
      return success(
        { entry, proof: checkpoint === "" ? null : proof },
        "The entry, with the proof that it is in the log.",
      );
    },
  });

  route("getAuditCheckpoint", "GET", "/admin/audit/checkpoint", {
    summary: "Read the latest signed checkpoint",
    description: "404 while there is none yet.",
    policy,
    answers: answersWith(
      "The checkpoint, and the key to verify it with.",
      z.strictObject({ checkpoint, verifierKey: textLike("gatehouse.example/audit+00000000+AAAA") }),
    ),
    codes: ["not_found"],
    handler: async (request) => {
      const { checkpoint, verifierKey } = await auditQuery.getCheckpoint(
        { atLeastSize: 0 },
        request.state.call,
      );
      return success({ checkpoint, verifierKey }, "The latest signed checkpoint.");
    },
  });

  route("proveAuditInclusion", "GET", "/admin/audit/inclusion", {
    summary: "Prove that an entry is in the log",
    description: "404 for a tree that is larger than the log.",
    policy,
    schema: { querystring: z.strictObject({ sequence: size, treeSize: size }) },
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
    schema: { querystring: z.strictObject({ from: size, to: size }) },
    answers: answersWith("The proof.", z.strictObject({ proof: hashes })),
    codes: ["not_found"],
    handler: async (request) => {
      const { from: firstSize, to: secondSize } = request.query;
      const { proof } = await auditQuery.proveConsistency({ firstSize, secondSize }, request.state.call);
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

/** The reading of the log covers it. @returns undefined if identity-service does not answer: the log is read without it. */
async function peopleIn(
  entries: readonly z.output<typeof auditEntryAnswer>[],
  users: Backends["users"],
  call: CallContext,
): Promise<z.output<typeof peopleAnswer> | undefined> {
  const named = entries.flatMap(({ actor: { userId = "" }, resource }) => [userId, resource]);
  const ids = [...new Set(named.filter((id) => isUuid(id)))].slice(0, MAX_PEOPLE);
  if (ids.length === 0) return [];
  const all = {
    query: "",
    role: "",
    status: UserStatus.UNSPECIFIED,
    sort: UserSort.UNSPECIFIED,
    cursor: "",
    neverLoggedIn: false,
    lastLoginBefore: undefined,
  };
  const wanted = { ...all, ids, limit: ids.length };
  const deadlineMs = Math.min(call.deadlineMs, Date.now() + PEOPLE_BUDGET_MS);
  try {
    const found = await users.listUsers(wanted, { ...call, deadlineMs });
    return found.users.map(({ user }) => toUser(user)).map(({ id, email }) => ({ id, email }));
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
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

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
