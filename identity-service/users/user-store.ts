import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import { ROLES, USER_STATUSES, type User, type UserStatus } from "./user.ts";

/** Arbitrary, and the same in every version: one replica at a time makes the first administrator. */
const BOOTSTRAP_LOCK = 7_031_101;

/** A user, and what decides whether a login succeeds. */
export interface Account {
  user: User;
  status: UserStatus;
  /** PHC string; null if the account has no password. */
  passwordHash: string | null;
  /** Goes up with each change that ends sessions: see complete-login.ts. */
  sessionEpoch: number;
  /** No session before the password was changed. */
  mustChangePassword: boolean;
}

export interface UserRow extends Omit<User, "role"> {
  role: string;
}

/**
 * Adds an active account, without a second factor.
 *
 * @returns false, with nothing changed, if the address has an account already: decided by the unique
 *   constraint, so of any number of concurrent calls one succeeds. Also if the address is kept for the
 *   account that had it until lately.
 */
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

/**
 * Whoever gives an address to an account, or takes it away, holds this until the transaction ends, so that who comes
 * second sees what the first has done: a kept address is found in another table than the account.
 */
export async function lockAddresses(tx: TransactionSql, emails: readonly string[]): Promise<void> {
  for (const email of [...emails].sort()) {
    await tx`select pg_advisory_xact_lock(hashtextextended(${email}, 1))`;
  }
}

/** @param id UUID. */
export async function findUser(sql: Sql | TransactionSql, id: string): Promise<User | undefined> {
  const [row] = await sql<UserRow[]>`
    select id, email, first_name as "firstName", last_name as "lastName", role,
      email_verified as "emailVerified", created_at as "createdAt",
      exists (select from totp_credentials where user_id = users.id and confirmed_at is not null) as "mfaEnabled"
    from users
    where id = ${id}
  `;
  return row && toUser(row);
}

interface AccountRow extends UserRow, Omit<Account, "user" | "status"> {
  status: string;
}

const accountColumns = (sql: Sql | TransactionSql) => sql`
  id, email, first_name as "firstName", last_name as "lastName", role,
  email_verified as "emailVerified", created_at as "createdAt",
  exists (select from totp_credentials where user_id = users.id and confirmed_at is not null) as "mfaEnabled",
  status, password_hash as "passwordHash", session_epoch as "sessionEpoch",
  must_change_password as "mustChangePassword"
`;

/** @param email canonical. */
export async function findAccount(sql: Sql | TransactionSql, email: string): Promise<Account | undefined> {
  const [row] = await sql<AccountRow[]>`select ${accountColumns(sql)} from users where email = ${email}`;
  return row && toAccount(row);
}

/**
 * The same for a login: an address without an account costs the database and us what another does, the row of some user
 * included, which goes no further than here. Without it, who measured would tell the two apart by some 60 µs.
 *
 * @param email canonical.
 */
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

/** The same by its id. @param id UUID. */
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

/** Replaces a password hash, unless it was replaced by something else in the meantime: then nothing happens. */
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

/** What decides whether a device is known, and whether an unknown one is news. */
export interface DeviceOwner {
  /** Goes up with each new password. */
  passwordEpoch: number;
  /** Null if nobody has logged in since this is kept. */
  firstLoginAt: Date | null;
}

/** What a device token is held against. Undefined if the user is gone. */
export async function findDeviceAccount(
  sql: Sql,
  userId: string,
): Promise<{ email: string; passwordEpoch: number } | undefined> {
  const [row] = await sql<{ email: string; passwordEpoch: number }[]>`
    select email, password_epoch as "passwordEpoch" from users where id = ${userId}
  `;
  return row;
}

/** Locked until the transaction ends, so that an erasure comes before or after. Undefined if the user is gone. */
export async function lockDeviceOwner(tx: TransactionSql, userId: string): Promise<DeviceOwner | undefined> {
  const [row] = await tx<DeviceOwner[]>`
    select password_epoch as "passwordEpoch", first_login_at as "firstLoginAt"
    from users where id = ${userId} for no key update
  `;
  return row;
}

/** Under that lock. */
export async function noteFirstLogin(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`update users set first_login_at = ${at} where id = ${userId} and first_login_at is null`;
}

/** Waits for its turn to make the first administrator; holds it until the transaction ends. */
export async function lockAdminBootstrap(tx: TransactionSql): Promise<void> {
  await tx`select pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`;
}

/** Whether there is an administrator, active or not. */
export async function hasAdmin(sql: Sql | TransactionSql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from users where role = 'ADMIN') as found
  `;
  return row?.found === true;
}

/** For readiness: fails while the database is away, not migrated, or closed to this role. */
export async function readUsersTable(sql: Sql): Promise<void> {
  await sql`select from users limit 1`;
}

export function toUser(row: UserRow): User {
  return { ...row, role: known(ROLES, row.role) };
}

/** A value that a newer version has written and this one does not know grants nothing. */
export function known<T extends string>(values: readonly T[], text: string): T {
  const value = values.find((candidate) => candidate === text);
  if (value === undefined) throw new Error(`users has a value this version does not know: ${text}`);
  return value;
}
