import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import { ROLES, USER_STATUSES, type User, type UserStatus } from "./user.ts";

/** Arbitrary lock id. Must not change between versions. */
const BOOTSTRAP_LOCK = 7_031_101;

export interface Account {
  user: User;
  status: UserStatus;
  passwordHash: string | null;
  /** Increases with each change that ends sessions. */
  sessionEpoch: number;
  mustChangePassword: boolean;
}

export interface UserRow extends Omit<User, "role"> {
  role: string;
}

/** Returns false if the address is taken or reserved. The unique constraint decides races. */
export async function insertUser(
  sql: Sql | TransactionSql,
  user: User & { passwordHash: string | null },
): Promise<boolean> {
  const rows = await sql`
    insert into users (id, email, first_name, last_name, role, status, password_hash, email_verified, created_at, updated_at)
    select ${user.id}, ${user.email}, ${user.firstName}, ${user.lastName}, ${user.role}, 'active',
      ${user.passwordHash}, ${user.emailVerified}, ${user.createdAt}, ${user.createdAt}
    where not exists (
      select from links
      where new_email = ${user.email} and purpose = 'undo_email_change' and consumed_at is null
        and expires_at > ${user.createdAt}
    )
    on conflict on constraint users_email_key do nothing
    returning id
  `;
  return rows.length === 1;
}

/** Serialises changes of address ownership, because reserved addresses are in another table. */
export async function lockAddresses(tx: TransactionSql, emails: readonly string[]): Promise<void> {
  for (const email of [...emails].sort()) {
    await tx`select pg_advisory_xact_lock(hashtextextended(${email}, 1))`;
  }
}

const userColumns = (sql: Sql | TransactionSql) => sql`
  id, email, first_name as "firstName", last_name as "lastName", role, email_verified as "emailVerified",
  created_at as "createdAt",
  exists (select from totp_credentials where user_id = users.id and confirmed_at is not null) as "mfaEnabled"
`;

export async function findUser(sql: Sql | TransactionSql, id: string): Promise<User | undefined> {
  const [row] = await sql<UserRow[]>`select ${userColumns(sql)} from users where id = ${id}`;
  return row && toUser(row);
}

interface AccountRow extends UserRow, Omit<Account, "user" | "status"> {
  status: string;
}

const accountColumns = (sql: Sql | TransactionSql) => sql`
  ${userColumns(sql)}, status, password_hash as "passwordHash", session_epoch as "sessionEpoch",
  must_change_password as "mustChangePassword"
`;

export async function findAccount(sql: Sql | TransactionSql, email: string): Promise<Account | undefined> {
  const [row] = await sql<AccountRow[]>`select ${accountColumns(sql)} from users where email = ${email}`;
  return row && toAccount(row);
}

/** Reads some row even for an unknown address, because the difference of about 60 µs is measurable. */
export async function findAccountForLogin(sql: Sql, email: string): Promise<Account | undefined> {
  const [row] = await sql<AccountRow[]>`
    select ${accountColumns(sql)} from users
    where id = coalesce(
      (select id from users where email = ${email}),
      (select id from users order by id limit 1)
    )
  `;
  const account = row && toAccount(row);
  return account?.user.email === email ? account : undefined;
}

export async function findAccountOfUser(sql: Sql | TransactionSql, id: string): Promise<Account | undefined> {
  const [row] = await sql<AccountRow[]>`select ${accountColumns(sql)} from users where id = ${id}`;
  return row && toAccount(row);
}

function toAccount({ status, passwordHash, sessionEpoch, mustChangePassword, ...row }: AccountRow): Account {
  return {
    user: toUser(row),
    status: known(USER_STATUSES, status),
    passwordHash,
    sessionEpoch,
    mustChangePassword,
  };
}

/** Does nothing if the hash has changed in the meantime. */
export async function replacePasswordHash(
  sql: Sql,
  change: { userId: string; oldHash: string; newHash: string; at: Date },
): Promise<void> {
  await sql`
    update users
    set password_hash = ${change.newHash}, updated_at = greatest(updated_at, ${change.at})
    where id = ${change.userId} and password_hash = ${change.oldHash}
  `;
}

export interface DeviceOwner {
  /** Incremented with every new password. */
  passwordEpoch: number;
  /** Null if unknown. */
  firstLoginAt: Date | null;
}

export async function findDeviceAccount(
  sql: Sql,
  userId: string,
): Promise<{ email: string; passwordEpoch: number } | undefined> {
  const [row] = await sql<{ email: string; passwordEpoch: number }[]>`
    select email, password_epoch as "passwordEpoch" from users where id = ${userId}
  `;
  return row;
}

/** The lock orders this before or after an erasure. */
export async function lockDeviceOwner(tx: TransactionSql, userId: string): Promise<DeviceOwner | undefined> {
  const [row] = await tx<DeviceOwner[]>`
    select password_epoch as "passwordEpoch", first_login_at as "firstLoginAt"
    from users where id = ${userId} for no key update
  `;
  return row;
}

export async function noteFirstLogin(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`update users set first_login_at = ${at} where id = ${userId} and first_login_at is null`;
}

export async function lockAdminBootstrap(tx: TransactionSql): Promise<void> {
  await tx`select pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`;
}

/** Includes disabled administrators. */
export async function hasAdmin(sql: Sql | TransactionSql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from users where role = 'ADMIN') as found
  `;
  return row?.found === true;
}

export async function readUsersTable(sql: Sql): Promise<void> {
  await sql`select from users limit 1`;
}

export function toUser(row: UserRow): User {
  return { ...row, role: known(ROLES, row.role) };
}

/** Throws on a value of a newer version, so that it grants nothing. */
export function known<T extends string>(values: readonly T[], text: string): T {
  const value = values.find((candidate) => candidate === text);
  if (value === undefined) throw new Error(`users has a value this version does not know: ${text}`);
  return value;
}
