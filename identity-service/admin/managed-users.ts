import { validate as isUuid } from "uuid";
import type { Sql } from "#kit/database/postgres.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { DomainError, type FieldProblem } from "#kit/values/errors.ts";
import type { Account } from "../users/account.ts";
import {
  countUsers,
  selectUsers,
  type UserFilter,
  type UserSort,
  type UserTotal,
  wordsOf,
} from "./user-admin-store.ts";

const MAX_LIMIT = 100;
const MAX_QUERY_CHARACTERS = 254;
const MAX_WORDS = 10;
const MAX_COUNTED = 10_000;
/** Of one character are names only in scripts that write a syllable or a word by it. */
const ONE_CHARACTER = /^.$/u;
const SYLLABLE =
  /^[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Bopomofo}\p{Script=Yi}]$/u;

export interface ListUsersRequest extends Omit<UserFilter, "email"> {
  sort?: UserSort | undefined;
  cursor?: string | undefined;
  limit: number;
}

export interface UserPage {
  users: Omit<Account, "passwordHash">[];
  nextCursor: string | undefined;
  /** Of the first page, unless counting took too long. */
  total?: UserTotal | undefined;
}

/**
 * Newest first by default: registrations do not shift later pages. Those who last logged in before a time come by their last login. A complete address finds its owner alone. @throws {DomainError} `validation_failed`.
 */
export async function listUsers(deps: { sql: Sql }, request: ListUsersRequest): Promise<UserPage> {
  const { cursor, limit, sort, ...filter } = request;
  const problems = problemsOf(request);
  if (problems.length > 0) throw new DomainError("validation_failed", undefined, { fields: problems });
  const owner = cursor === undefined ? await ownerOfAddress(deps.sql, request) : undefined;
  if (owner !== undefined) return { users: [owner], nextCursor: undefined, total: { count: 1, is: "exact" } };
  const order = filter.lastLogin instanceof Date ? "last_login" : sort;
  const after = cursor === undefined ? undefined : decodeCursor(cursor);
  const users = await selectUsers(deps.sql, { ...filter, sort: order, after, limit: limit + 1 });
  const page = users.slice(0, limit);
  const total = cursor === undefined ? await countAll(deps.sql, filter, users.length, limit) : undefined;
  return { users: page, nextCursor: users.length > limit ? encodeCursor(page.at(-1)) : undefined, total };
}

/** Newer cursors fit every order. */
const encodeCursor = (user: UserPage["users"][number] | undefined) =>
  user && [user.id, ...(user.lastLoginAt === null ? [] : [user.lastLoginAt.toISOString()])].join("~");

function decodeCursor(cursor: string): { id: string; lastLoginAt: Date | null } | undefined {
  const [id = "", time, ...more] = cursor.split("~");
  const lastLoginAt = time === undefined ? null : new Date(time);
  const isValid = isUuid(id) && more.length === 0 && (lastLoginAt === null || isStorable(lastLoginAt));
  return isValid ? { id, lastLoginAt } : undefined;
}

/** PostgreSQL has no year 0, and none that JavaScript writes with a sign. */
const isStorable = (time: Date): boolean => time.getUTCFullYear() >= 1 && time.getUTCFullYear() <= 9_999;

async function countAll(sql: Sql, filter: UserFilter, found: number, limit: number) {
  return found > limit ? countUsers(sql, filter, MAX_COUNTED) : { count: found, is: "exact" as const };
}

/** As a part of a text an address takes long to find: millions of addresses have its domain. */
async function ownerOfAddress(
  sql: Sql,
  { query = "", role, status, hasSecondFactor, lastLogin, ids }: ListUsersRequest,
): Promise<UserPage["users"][number] | undefined> {
  const email = canonicalEmail(query);
  if (email === undefined) return undefined;
  const [owner] = await selectUsers(sql, { email, role, status, hasSecondFactor, lastLogin, ids, limit: 1 });
  return owner;
}

function problemsOf({ cursor, limit, query = "", ids = [], lastLogin }: ListUsersRequest): FieldProblem[] {
  const problem = (field: string, message: string) => ({ field, code: "invalid_format", message });
  return [
    ...(cursor === undefined || decodeCursor(cursor) !== undefined ? [] : [problem("cursor", "is invalid")]),
    ...(Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT
      ? []
      : [problem("limit", `must be 1 to ${MAX_LIMIT}`)]),
    ...(!(lastLogin instanceof Date) || isStorable(lastLogin)
      ? []
      : [problem("lastLogin", "must be of the years 1 to 9999")]),
    ...(ids.length <= MAX_LIMIT && ids.every((id) => isUuid(id))
      ? []
      : [problem("ids", `must be at most ${MAX_LIMIT} UUIDs`)]),
    ...(query === "" || isSearchable(query)
      ? []
      : [
          problem(
            "query",
            `must be at most ${MAX_WORDS} words, one of which has 2 to ${MAX_QUERY_CHARACTERS} characters, or one of a script such as Chinese`,
          ),
        ]),
  ];
}

function isSearchable(query: string): boolean {
  if (query.length > MAX_QUERY_CHARACTERS || query.includes("\0")) return false;
  const words = wordsOf(query);
  return (
    words.length <= MAX_WORDS &&
    words.some((word) => word !== "" && (!ONE_CHARACTER.test(word) || SYLLABLE.test(word)))
  );
}
