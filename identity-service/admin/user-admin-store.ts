import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import { type ManagedUser, type Role, USER_STATUSES, type UserStatus } from "../users/user.ts";
import { known, toUser, type UserRow } from "../users/user-store.ts";

export interface UserFilter {
  /** Substring of address or name, case-insensitive. */
  query?: string | undefined;
  role?: Role | undefined;
  status?: UserStatus | undefined;
  /** Selects only older accounts. */
  before?: string | undefined;
  limit: number;
}

interface ManagedRow extends UserRow {
  status: string;
  firstLoginAt: Date | null;
  mustChangePassword: boolean;
}

const managedColumns = (sql: Sql | TransactionSql) => sql`
  id, email, first_name as "firstName", last_name as "lastName", role,
  email_verified as "emailVerified", created_at as "createdAt",
  exists (select from totp_credentials where user_id = users.id and confirmed_at is not null) as "mfaEnabled",
  status, first_login_at as "firstLoginAt", must_change_password as "mustChangePassword"
`;

/** Must equal the expression of the index. ICU folds the case of every script. */
const searchedText = (sql: Sql) =>
  sql`lower((email || ' ' || first_name || ' ' || last_name) collate "und-x-icu")`;

/** Newest first, because ids are UUIDv7. */
export async function selectUsers(sql: Sql, filter: UserFilter): Promise<ManagedUser[]> {
  const { query, role, status, before, limit } = filter;
  // The normalisation of `personal-name.ts`.
  const wanted =
    query === undefined ? undefined : `%${query.normalize("NFC").replaceAll(/[\\%_]/g, "\\$&")}%`;
  const rows = await sql<ManagedRow[]>`
    select ${managedColumns(sql)}
    from users
    where true
      ${before === undefined ? sql`` : sql`and id < ${before}`}
      ${role === undefined ? sql`` : sql`and role = ${role}`}
      ${status === undefined ? sql`` : sql`and status = ${status}`}
      ${wanted === undefined ? sql`` : sql`and ${searchedText(sql)} like lower(${wanted} collate "und-x-icu")`}
    order by id desc
    limit ${limit}
  `;
  return rows.map(toManagedUser);
}

export async function findManagedUser(
  sql: Sql | TransactionSql,
  id: string,
): Promise<ManagedUser | undefined> {
  const [row] = await sql<ManagedRow[]>`select ${managedColumns(sql)} from users where id = ${id}`;
  return row && toManagedUser(row);
}

export async function lockManagedUser(tx: TransactionSql, id: string): Promise<ManagedUser | undefined> {
  const [row] = await tx<ManagedRow[]>`select ${managedColumns(tx)} from users where id = ${id} for update`;
  return row && toManagedUser(row);
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

function toManagedUser({ status, firstLoginAt, mustChangePassword, ...user }: ManagedRow): ManagedUser {
  return {
    user: toUser(user),
    status: known(USER_STATUSES, status),
    firstLoginAt: firstLoginAt ?? undefined,
    mustChangePassword,
  };
}
