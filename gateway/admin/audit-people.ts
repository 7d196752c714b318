import type { FastifyRequest } from "fastify";
import { validate as isUuid } from "uuid";
import { z } from "zod";
import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { UserSort, UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { idField, toUser } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import { actorOf, principalOf } from "../edge/request/caller.ts";
import { textLike } from "../routing/fields.ts";
import type { auditEntryAnswer } from "./audit-entry-answer.ts";

export const peopleField = z
  .enum(["true"])
  .optional()
  .meta({ description: "With `people` in the answer, which needs `users:read`." });

/** As many as one call of identity-service answers: all of an ordinary page. */
const MAX_PEOPLE = 100;
const PEOPLE_BUDGET_MS = 1_000;

export const peopleAnswer = z
  .array(z.strictObject({ id: idField, email: textLike("ada@example.com") }))
  .meta({
    id: "AuditPeople",
    description: `Of the first ${MAX_PEOPLE} ids in \`actor.userId\` and \`resource\`, those that are accounts now. Absent while they cannot be read.`,
  });

/** @throws {DomainError} `forbidden`. */
export function assertMayNamePeople(
  access: AccessRules,
  request: FastifyRequest,
  { people }: { people?: "true" | undefined },
): void {
  if (people && !holdsPermission(access, actorOf(principalOf(request)), "users:read"))
    throw new DomainError("forbidden");
}

/** The reading of the log covers it. @returns undefined if identity-service does not answer: the log is read without it. */
export async function peopleIn(
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
