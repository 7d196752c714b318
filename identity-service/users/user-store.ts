import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { Account, Locked, NewAccount } from "./account.ts";

/** Arbitrary; the same in every version. */
const BOOTSTRAP_LOCK = 7_031_101;

/** Returns false if the address is taken or reserved. */
export async function insertUser(
  sql: Sql | TransactionSql,
  user: NewAccount & Pick<Account, "passwordHash"> & Partial<Pick<Account, "language" | "timeZone">>,
): Promise<boolean> {
  const rows = await sql`
    insert into users (id, email, first_name, last_name, role, status, password_hash, email_verified, language,
      time_zone, created_at, updated_at)
    select ${user.id}, ${user.email}, ${user.firstName}, ${user.lastName}, ${user.role}, 'active',
      ${user.passwordHash}, ${user.emailVerified}, ${user.language ?? null}, ${user.timeZone ?? null}, ${user.createdAt},
      ${user.createdAt}
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

export type ImportedAccount = NewAccount &
  Pick<Account, "passwordHash" | "status" | "mustChangePassword" | "language"> & {
    areCredentialsProven: boolean;
  };

/** Requires the locks of the addresses, which must be free. */
export async function insertImportedUsers(
  tx: TransactionSql,
  users: readonly ImportedAccount[],
): Promise<void> {
  const rows = users.map((user) => ({
    id: user.id,
    email: user.email,
    first_name: user.firstName,
    last_name: user.lastName,
    role: user.role,
    status: user.status,
    password_hash: user.passwordHash,
    email_verified: user.emailVerified,
    language: user.language,
    must_change_password: user.mustChangePassword,
    credentials_proven_email: user.areCredentialsProven ? user.email : null,
    credentials_proven_at: user.areCredentialsProven ? user.createdAt : null,
    created_at: user.createdAt,
    updated_at: user.createdAt,
  }));
  await tx`insert into users ${tx(rows)}`;
}

/** Of these addresses, those that have an account or are reserved for one. */
export async function findTakenAddresses(
  sql: Sql | TransactionSql,
  emails: readonly string[],
  now: Date,
): Promise<Set<string>> {
  const rows = await sql<{ email: string }[]>`
    select email from users where email = any(${[...emails]})
    union
    select new_email from links
    where new_email = any(${[...emails]}) and purpose = 'undo_email_change' and consumed_at is null and expires_at > ${now}
  `;
  return new Set(rows.map(({ email }) => email));
}

/** Serialises changes of ownership, because another table holds reservations. */
export async function lockAddresses(tx: TransactionSql, emails: readonly string[]): Promise<void> {
  // In the order of the array.
  await tx`select pg_advisory_xact_lock(hashtextextended(email, 1)) from unnest(${[...emails].sort()}::text[]) as email`;
}

/** Only if the hash is still the old one. */
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

export async function findDeviceAccount(
  sql: Sql,
  userId: string,
): Promise<Pick<Account, "email" | "passwordEpoch"> | undefined> {
  const [row] = await sql<Pick<Account, "email" | "passwordEpoch">[]>`
    select email, password_epoch as "passwordEpoch" from users where id = ${userId}
  `;
  return row;
}

type DeviceOwner = Locked<Pick<Account, "firstLoginAt">>;

/** Orders this before or after an erasure. */
export async function lockDeviceOwner(tx: TransactionSql, userId: string): Promise<DeviceOwner | undefined> {
  const [row] = await tx<DeviceOwner[]>`
    select first_login_at as "firstLoginAt" from users where id = ${userId} for no key update
  `;
  return row;
}

export async function noteFirstLogin(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`update users set first_login_at = ${at} where id = ${userId} and first_login_at is null`;
}

export async function lockAdminBootstrap(tx: TransactionSql): Promise<void> {
  await tx`select pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`;
}

/** Disabled ones too. */
export async function hasAdmin(sql: Sql | TransactionSql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from users where role = 'ADMIN') as found
  `;
  return row?.found === true;
}

export async function readUsersTable(sql: Sql): Promise<void> {
  await sql`select from users limit 0`;
}
