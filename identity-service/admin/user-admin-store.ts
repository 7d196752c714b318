import { type Sql, type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import type { Account, Role, UserStatus } from "../users/account.ts";
import { asKnown, columnsWithoutHash } from "../users/account-store.ts";

export interface UserFilter {
  /** Part of address or name, in any case. */
  query?: string | undefined;
  /** Canonical. */
  email?: string | undefined;
  role?: Role | undefined;
  status?: UserStatus | undefined;
  /** Id. Selects only older accounts. */
  before?: string | undefined;
  limit: number;
}

/** Equals the index expression. ICU folds the case of every script. */
const searchedText = (sql: TransactionSql) =>
  sql`lower((email || ' ' || first_name || ' ' || last_name) collate "und-x-icu")`;

/** Newest first: ids are UUIDv7. */
export async function selectUsers(sql: Sql, filter: UserFilter): Promise<Omit<Account, "passwordHash">[]> {
  // A plan for all values would read every user with a common part of a name: rare and common ones need different plans.
  const rows = await transaction(sql, async (tx) => {
    await tx`set local plan_cache_mode = force_custom_plan`;
    return selectPage(tx, filter);
  });
  return rows.map(asKnown);
}

function selectPage(
  tx: TransactionSql,
  { query, email, role, status, before, limit }: UserFilter,
): Promise<Omit<Account, "passwordHash">[]> {
  // Normalised as in `personal-name.ts`.
  const wanted =
    query === undefined ? undefined : `%${query.normalize("NFC").replaceAll(/[\\%_]/g, "\\$&")}%`;
  // The page first: for more rows the planner would read the second factors of all users.
  return tx<Omit<Account, "passwordHash">[]>`
    select ${columnsWithoutHash(tx)}
    from (
      select * from users
      where true
        ${before === undefined ? tx`` : tx`and id < ${before}`}
        ${email === undefined ? tx`` : tx`and email = ${email}`}
        ${role === undefined ? tx`` : tx`and role = ${role}`}
        ${status === undefined ? tx`` : tx`and status = ${status}`}
        ${wanted === undefined ? tx`` : tx`and ${searchedText(tx)} like lower(${wanted} collate "und-x-icu")`}
      order by id desc
      limit ${limit}
    ) as users
    order by id desc
  `;
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
  change: { userId: string; role: Role; status: UserStatus; mustChangePassword: boolean; at: Date },
): Promise<void> {
  await tx`
    update users
    set role = ${change.role}, status = ${change.status}, must_change_password = ${change.mustChangePassword},
      updated_at = greatest(updated_at, ${change.at})
    where id = ${change.userId}
  `;
}
