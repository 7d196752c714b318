import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import type { Account, Role, UserStatus } from "../users/account.ts";
import { asKnown, columnsWithoutHash } from "../users/account-store.ts";

export interface UserFilter {
  /** Part of address or name, in any case. */
  query?: string | undefined;
  role?: Role | undefined;
  status?: UserStatus | undefined;
  /** Id. Selects only older accounts. */
  before?: string | undefined;
  limit: number;
}

/** Equals the index expression. ICU folds the case of every script. */
const searchedText = (sql: Sql) =>
  sql`lower((email || ' ' || first_name || ' ' || last_name) collate "und-x-icu")`;

/** Newest first: ids are UUIDv7. */
export async function selectUsers(sql: Sql, filter: UserFilter): Promise<Omit<Account, "passwordHash">[]> {
  const { query, role, status, before, limit } = filter;
  // Normalised as in `personal-name.ts`.
  const wanted =
    query === undefined ? undefined : `%${query.normalize("NFC").replaceAll(/[\\%_]/g, "\\$&")}%`;
  const rows = await sql<Omit<Account, "passwordHash">[]>`
    select ${columnsWithoutHash(sql)}
    from users
    where true
      ${before === undefined ? sql`` : sql`and id < ${before}`}
      ${role === undefined ? sql`` : sql`and role = ${role}`}
      ${status === undefined ? sql`` : sql`and status = ${status}`}
      ${wanted === undefined ? sql`` : sql`and ${searchedText(sql)} like lower(${wanted} collate "und-x-icu")`}
    order by id desc
    limit ${limit}
  `;
  return rows.map(asKnown);
}

/** Users whose role is none of these. */
export async function countUsersOfOtherRoles(sql: Sql, roles: readonly Role[]): Promise<number> {
  // The index has all users but those of USER, who are most.
  const indexed = roles.includes("USER") ? sql`and role <> 'USER'` : sql``;
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from users where role <> all(${[...roles]}) ${indexed}
  `;
  return row?.count ?? 0;
}

/** Requires the account lock. */
export async function setAccess(
  tx: TransactionSql,
  change: { userId: string; role: Role; status: UserStatus; mustChangePassword: boolean; at: Date },
): Promise<void> {
  await tx`
    update users
    set role = ${change.role}, status = ${change.status}, must_change_password = ${change.mustChangePassword},
      updated_at = greatest(updated_at, ${change.at})
    where id = ${change.userId}
  `;
}
