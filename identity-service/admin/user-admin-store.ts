import { domainToASCII } from "node:url";
import { type Sql, type SqlPart, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Account, Role, UserStatus } from "../users/account.ts";
import { asKnown, columnsWithoutHash } from "../users/account-store.ts";

export interface UserFilter {
  /** Parts of address or name in any order and case, with accents or without. One or two characters: the beginning of a word. */
  query?: string | undefined;
  /** Canonical. */
  email?: string | undefined;
  role?: Role | undefined;
  status?: UserStatus | undefined;
  hasSecondFactor?: boolean | undefined;
  /** Those who have never logged in, or have last logged in before this. */
  lastLogin?: "never" | Date | undefined;
  ids?: readonly string[] | undefined;
}

/** By last login: the longest ago first, before them those who never have. */
export type UserSort = "newest" | "oldest" | "last_login";

interface PageOf {
  /** Newest first by default. */
  sort?: UserSort | undefined;
  /** The last account of the page before. */
  after?: { id: string; lastLoginAt: Date | null } | undefined;
  limit: number;
}

type StoredUser = Omit<Account, "passwordHash" | "mfaEnabled">;

/** Shorter texts have no trigram but at the beginning of a word. */
const TRIGRAM_CHARACTERS = 3;

export const wordsOf = (query: string): string[] => query.normalize("NFC").trim().split(/\s+/u);

/** Patterns of `like`, one of which fits. */
function patternsOf(word: string): string[] {
  const isShort = [...word].length < TRIGRAM_CHARACTERS;
  const pattern = `%${isShort ? " " : ""}${word.replaceAll(/[\\%_]/g, "\\$&")}%`;
  // Addresses are stored with the ASCII form of their domain.
  const [domain = "", localPart] = word.split("@").toReversed();
  const ascii = /[^\p{ASCII}]/u.test(domain) ? domainToASCII(domain) : "";
  return ascii === "" ? [pattern] : [pattern, `%${localPart === undefined ? "" : `${localPart}@`}${ascii}%`];
}

/** In the order of ids, which are UUIDv7. */
export async function selectUsers(
  sql: Sql,
  filter: UserFilter & PageOf,
): Promise<Omit<Account, "passwordHash">[]> {
  const rows = await withOwnPlans(sql, (tx) => selectPage(tx, filter));
  return rows.map(asKnown);
}

/** A plan for all values would read every user with a common part of a name: rare and common ones need different plans. */
function withOwnPlans<T>(sql: Sql, work: (tx: TransactionSql) => Promise<T>): Promise<T> {
  return transaction(sql, async (tx) => {
    await tx`set local plan_cache_mode = force_custom_plan`;
    return work(tx);
  });
}

function selectPage(
  tx: TransactionSql,
  { sort = "newest", after, limit, ...filter }: UserFilter & PageOf,
): Promise<StoredUser[]> {
  const order = orderBy(tx, sort);
  // The page first: for more rows the planner would read the second factors of all users.
  return tx<StoredUser[]>`
    select ${columnsWithoutHash(tx)}
    from (
      select * from users
      where ${fits(tx, filter)}
        ${after === undefined ? tx`` : tx`and ${isAfter(tx, sort, after)}`}
      ${order}
      limit ${limit}
    ) as users
    ${order}
  `;
}

/** Equals the index expression. */
const lastLoginColumn = (tx: TransactionSql) => tx`coalesce(last_login_at, '-infinity')`;

function orderBy(tx: TransactionSql, sort: UserSort): SqlPart {
  if (sort === "last_login") return tx`order by ${lastLoginColumn(tx)}, id`;
  return sort === "oldest" ? tx`order by id` : tx`order by id desc`;
}

function isAfter(
  tx: TransactionSql,
  sort: UserSort,
  { id, lastLoginAt }: NonNullable<PageOf["after"]>,
): SqlPart {
  if (sort === "newest") return tx`id < ${id}`;
  if (sort === "oldest") return tx`id > ${id}`;
  return tx`(${lastLoginColumn(tx)}, id) > (coalesce(${lastLoginAt}::timestamptz, '-infinity'), ${id}::uuid)`;
}

function fits(
  tx: TransactionSql,
  { query = "", email, role, status, hasSecondFactor, lastLogin, ids }: UserFilter,
): SqlPart {
  const words = query === "" ? [] : wordsOf(query).map(patternsOf);
  return tx`
    true
    ${ids === undefined ? tx`` : tx`and id = any(${[...ids]}::uuid[])`}
    ${email === undefined ? tx`` : tx`and email = ${email}`}
    ${role === undefined ? tx`` : tx`and role = ${role}`}
    ${status === undefined ? tx`` : tx`and status = ${status}`}
    ${hasSecondFactor === undefined ? tx`` : tx`and has_second_factor = ${hasSecondFactor}`}
    ${lastLogin === undefined ? tx`` : lastLogin === "never" ? tx`and ${lastLoginColumn(tx)} = '-infinity'` : tx`and ${lastLoginColumn(tx)} < ${lastLogin} and ${lastLoginColumn(tx)} > '-infinity'`}
    ${words.reduce(
      (others, [wanted = "", ofDomain]) =>
        tx`${others} and (searched like folded(${wanted}) ${ofDomain === undefined ? tx`` : tx`or searched like folded(${ofDomain})`})`,
      tx``,
    )}
  `;
}

/** A count. Over: more than that, and the statistics do not say how many. */
export interface UserTotal {
  count: number;
  is: "exact" | "about" | "over";
}

/** A text that many users have takes a tenth of a millisecond for each. */
const COUNT_TIMEOUT_MS = 300;
const FIGURE_TIMEOUT_MS = 1_500;

/**
 * Counts up to `atMost` users, and estimates more, unless a text is looked for.
 *
 * @returns undefined if it takes too long.
 */
export async function countUsers(
  sql: Sql,
  filter: UserFilter,
  atMost: number,
): Promise<UserTotal | undefined> {
  return withOwnPlans(sql, async (tx) => {
    await tx`select set_config('statement_timeout', ${String(COUNT_TIMEOUT_MS)}, true)`;
    const [row] = await tx<{ count: number }[]>`
      select count(*)::int as count from (select from users where ${fits(tx, filter)} limit ${atMost + 1}) as found
    `;
    const { count = 0 } = row ?? {};
    if (count <= atMost) return { count, is: "exact" as const };
    const over = { count: atMost, is: "over" as const };
    // How often a part of a text occurs is not in the statistics.
    if (filter.query !== undefined) return over;
    const estimate = await planned(tx, tx`select from users where ${fits(tx, filter)}`);
    // Statistics that are old, and those of Citus's coordinator, do not know of the rows.
    return estimate > atMost ? { count: estimate, is: "about" as const } : over;
  }).catch((error: unknown) => {
    if (!isTooSlow(error)) throw error;
    return undefined;
  });
}

const isTooSlow = (error: unknown): boolean =>
  error instanceof DomainError && error.code === "service_unavailable";

/** How many rows the statistics promise. */
async function planned(sql: Sql | TransactionSql, rows: SqlPart): Promise<number> {
  const [found] = await sql<{ "QUERY PLAN": [{ Plan: { "Plan Rows": number } }] }[]>`
    explain (format json) ${rows}`;
  return found?.["QUERY PLAN"][0].Plan["Plan Rows"] ?? 0;
}

/** Users whose role is none of these. Stops at 1,000 of a role. */
export async function countUsersOfOtherRoles(sql: Sql, roles: readonly Role[]): Promise<number> {
  // From one role to the next by the index, because nearly all users have one of these roles.
  const [row] = await sql<{ count: number }[]>`
    with recursive present as (
      select min(role) as role from users
      union all
      select (select min(role) from users where users.role > present.role) from present where present.role is not null
    )
    select count(*)::int as count from present
    cross join lateral (select from users where users.role = present.role limit 1000) as found
    where present.role <> all(${[...roles]})
  `;
  return row?.count ?? 0;
}

/** Requires the account lock. */
export async function setAccess(
  tx: TransactionSql,
  user: Pick<Account, "id" | "role" | "status" | "mustChangePassword" | "firstName" | "lastName">,
  at: Date,
): Promise<void> {
  await tx`
    update users
    set role = ${user.role}, status = ${user.status}, must_change_password = ${user.mustChangePassword},
      first_name = ${user.firstName}, last_name = ${user.lastName}, updated_at = greatest(updated_at, ${at})
    where id = ${user.id}
  `;
}

interface Figure {
  count: number;
  /** Counting took longer than 1.5 s: what the planner expects. */
  isEstimate: boolean;
}

export interface UserFigures {
  users: Figure;
  newInWeek: Figure;
  /** Logged in to in the last 30 days. */
  active: Figure;
  withSecondFactor: Figure;
  withPasskey: Figure;
  mailsWaiting: Figure;
  /** In the last 7 days. */
  mailsFailed: Figure;
}

/** Reads whole indexes, one after the other. */
export async function selectUserFigures(sql: Sql, now: Date): Promise<UserFigures> {
  const weekAgo = firstIdOf(now.getTime() - WEEK_MS);
  return {
    users: await count(sql, () => sql`select from users`),
    newInWeek: await count(sql, () => sql`select from users where id > ${weekAgo}`),
    active: await count(
      sql,
      () => sql`select distinct user_id from known_networks where seen_at > now() - interval '30 days'`,
    ),
    withSecondFactor: await count(
      sql,
      () => sql`
        select user_id from totp_credentials where confirmed_at is not null union select user_id from passkeys`,
    ),
    withPasskey: await count(sql, () => sql`select distinct user_id from passkeys`),
    mailsWaiting: await count(
      sql,
      () => sql`select from mail_outbox where sent_at is null and given_up_at is null`,
    ),
    mailsFailed: await count(
      sql,
      () => sql`
        select from mail_outbox
        where given_up_at > now() - interval '7 days' and (attempts > 0 or given_up_at > created_at)`,
    ),
  };
}

async function count(sql: Sql, rows: () => SqlPart): Promise<Figure> {
  try {
    return await transaction(sql, async (tx) => {
      await tx`select set_config('statement_timeout', ${String(FIGURE_TIMEOUT_MS)}, true)`;
      const [found] = await tx<{ count: string }[]>`select count(*) from (${rows()}) as found`;
      return { count: Number(found?.count), isEstimate: false };
    });
  } catch (error) {
    if (!isTooSlow(error)) throw error;
    return { count: await planned(sql, rows()), isEstimate: true };
  }
}

const WEEK_MS = 7 * 24 * 3_600_000;

/** UUIDv7 (RFC 9562 §5.7). */
function firstIdOf(ms: number): string {
  const hex = ms.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
}
