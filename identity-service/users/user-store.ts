import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import type { Account, Locked, NewAccount } from "./account.ts";

/** Arbitrary; the same in every version. */
const BOOTSTRAP_LOCK = 7_031_101;

/** Returns false if the address is taken or reserved. */
export async function insertUser(
  sql: Sql | TransactionSql,
  user: NewAccount & Pick<Account, "passwordHash">,
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

/** Serialises changes of ownership, because another table holds reservations. */
export async function lockAddresses(tx: TransactionSql, emails: readonly string[]): Promise<void> {
  for (const email of [...emails].sort()) {
    await tx`select pg_advisory_xact_lock(hashtextextended(${email}, 1))`;
  }
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

type DeviceOwner = Locked<Pick<Account, "passwordEpoch" | "firstLoginAt">>;

/** Orders this before or after an erasure. */
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

/** Disabled ones too. */
export async function hasAdmin(sql: Sql | TransactionSql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from users where role = 'ADMIN') as found
  `;
  return row?.found === true;
}

export async function readUsersTable(sql: Sql): Promise<void> {
  await sql`select from users limit 1`;
}
