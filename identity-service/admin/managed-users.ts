import { validate as isUuid } from "uuid";
import { DomainError, type FieldProblem } from "../../service-kit/errors.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { ManagedUser } from "../users/user.ts";
import { findManagedUser, selectUsers, type UserFilter } from "./user-admin-store.ts";

const MAX_LIMIT = 100;
const MAX_QUERY_CHARACTERS = 254;
/** Minimum for the trigram index. A shorter query would scan the table. */
const MIN_QUERY_CHARACTERS = 3;

export interface ListUsersRequest extends Omit<UserFilter, "before"> {
  cursor?: string | undefined;
}

export interface UserPage {
  users: ManagedUser[];
  /** Undefined on the last page. */
  nextCursor: string | undefined;
}

/** Newest first. New registrations do not shift later pages. @throws {DomainError} `validation_failed`. */
export async function listUsers(deps: { sql: Sql }, request: ListUsersRequest): Promise<UserPage> {
  const { cursor, limit, ...filter } = request;
  const problems = problemsOf(request);
  if (problems.length > 0) throw new DomainError("validation_failed", undefined, { fields: problems });
  const users = await selectUsers(deps.sql, { ...filter, before: cursor, limit: limit + 1 });
  const page = users.slice(0, limit);
  return { users: page, nextCursor: users.length > limit ? page.at(-1)?.user.id : undefined };
}

/** @throws {DomainError} `not_found`, also for an id that is no UUID. */
export async function getManagedUser(deps: { sql: Sql }, userId: string): Promise<ManagedUser> {
  const found = isUuid(userId) ? await findManagedUser(deps.sql, userId) : undefined;
  if (found === undefined) throw new DomainError("not_found");
  return found;
}

function problemsOf({ cursor, limit, query = "" }: ListUsersRequest): FieldProblem[] {
  const problem = (field: string, message: string) => ({ field, code: "invalid_format", message });
  return [
    ...(cursor === undefined || isUuid(cursor) ? [] : [problem("cursor", "is invalid")]),
    ...(Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT
      ? []
      : [problem("limit", `must be 1 to ${MAX_LIMIT}`)]),
    ...(query === "" || isSearchable(query)
      ? []
      : [problem("query", `must be text of ${MIN_QUERY_CHARACTERS} to ${MAX_QUERY_CHARACTERS} characters`)]),
  ];
}

function isSearchable(query: string): boolean {
  if (query.length > MAX_QUERY_CHARACTERS || query.includes("\0")) return false;
  return [...query.normalize("NFC").trim()].length >= MIN_QUERY_CHARACTERS;
}
