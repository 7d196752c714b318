import { isUniqueViolation, type Sql, type SqlPart, type TransactionSql } from "#kit/database/postgres.ts";
import { type Account, type Locked, type Role, USER_STATUSES } from "./account.ts";
import type { WaysIn } from "./can-log-in.ts";

/** Without the password hash, and what `asKnown` finds out. */
export const columnsWithoutHash = (sql: Sql | TransactionSql) => sql`
  id, email, email_verified as "emailVerified", first_name as "firstName", last_name as "lastName", role, status, language,
  time_zone as "timeZone", created_at as "createdAt", first_login_at as "firstLoginAt", last_login_at as "lastLoginAt",
  must_change_password as "mustChangePassword", password_epoch as "passwordEpoch", session_epoch as "sessionEpoch",
  case when credentials_proven_email = email then credentials_proven_at end as "credentialsProvenAt",
  exists (select from totp_credentials where user_id = users.id and confirmed_at is not null) as "hasTotp",
  (select count(*)::int from passkeys where user_id = users.id) as "passkeyCount"
`;

async function selectAccount(sql: Sql | TransactionSql, which: SqlPart): Promise<Account | undefined> {
  const [row] = await sql<Omit<Account, "mfaEnabled">[]>`
    select ${columnsWithoutHash(sql)}, password_hash as "passwordHash" from users where ${which}
  `;
  return row && asKnown(row);
}

/** Throws on a status of a newer version, so that it grants nothing. */
export function asKnown<T extends Pick<Account, "status" | "hasTotp" | "passkeyCount">>(
  row: T,
): T & Pick<Account, "mfaEnabled"> {
  const { status, hasTotp, passkeyCount } = row;
  if (USER_STATUSES.includes(status)) return { ...row, mfaEnabled: hasTotp || passkeyCount > 0 };
  throw new Error(`users has a status this version does not know: ${status}`);
}

export function findAccountById(sql: Sql | TransactionSql, userId: string): Promise<Account | undefined> {
  return selectAccount(sql, sql`id = ${userId}`);
}

export function findAccountByEmail(sql: Sql | TransactionSql, email: string): Promise<Account | undefined> {
  return selectAccount(sql, sql`email = ${email}`);
}

/** Reads some row even for an unknown address, because about 60 µs are measurable. */
export async function findAccountForLogin(sql: Sql, email: string): Promise<Account | undefined> {
  const account = await selectAccount(
    sql,
    sql`
      id = coalesce(
        (select id from users where email = ${email}),
        (select id from users order by id limit 1)
      )
    `,
  );
  return account?.email === email ? account : undefined;
}

/** Must be the first lock of a transaction. */
export function lockAccount(tx: TransactionSql, userId: string): Promise<Locked<Account> | undefined> {
  return readLocked(tx, tx<{ id: string }[]>`select id from users where id = ${userId} for update`);
}

export function lockAccountByEmail(tx: TransactionSql, email: string): Promise<Locked<Account> | undefined> {
  return readLocked(tx, tx<{ id: string }[]>`select id from users where email = ${email} for update`);
}

/** Rows that refer to the account can still be inserted. */
export function lockAccountForMfa(tx: TransactionSql, userId: string): Promise<Locked<Account> | undefined> {
  return readLocked(tx, tx<{ id: string }[]>`select id from users where id = ${userId} for no key update`);
}

async function readLocked(
  tx: TransactionSql,
  lock: PromiseLike<readonly { id: string }[]>,
): Promise<Locked<Account> | undefined> {
  const [row] = await lock;
  if (row === undefined) return undefined;
  // After a wait, a subquery of the locking statement would be older than the lock.
  return (await selectAccount(tx, tx`id = ${row.id}`)) as Locked<Account> | undefined;
}

/** Requires the account lock. Also clears the password requirement and revokes known devices. */
export async function setPasswordHash(
  tx: TransactionSql,
  change: { userId: string; passwordHash: string; at: Date },
): Promise<void> {
  await tx`
    update users
    set password_hash = ${change.passwordHash}, must_change_password = false, password_epoch = password_epoch + 1,
      updated_at = greatest(updated_at, ${change.at})
    where id = ${change.userId}
  `;
}

/** Requires the account lock. */
export async function setEmailVerified(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`
    update users set email_verified = true, updated_at = greatest(updated_at, ${at}) where id = ${userId}
  `;
}

/** Requires the account lock. Also verifies the address. */
export async function setCredentialsProven(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`
    update users
    set email_verified = true, credentials_proven_email = email, credentials_proven_at = ${at},
      updated_at = greatest(updated_at, ${at})
    where id = ${userId}
  `;
}

/** Requires the account lock. */
export async function clearCredentialsProof(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`
    update users
    set credentials_proven_email = null, credentials_proven_at = null, updated_at = greatest(updated_at, ${at})
    where id = ${userId}
  `;
}

/** Ends the proof. Returns false if the address is taken or reserved; the transaction cannot continue then. */
export async function setEmail(
  tx: TransactionSql,
  change: { userId: string; email: string; at: Date },
): Promise<boolean> {
  try {
    await noteFormerAddress(tx, change.userId);
    const result = await tx.savepoint(
      (inner) => inner`
        update users
        set email = ${change.email}, email_verified = true, updated_at = greatest(updated_at, ${change.at})
        where id = ${change.userId} and not exists (
          select from links
          where new_email = ${change.email} and purpose = 'undo_email_change' and consumed_at is null
            and expires_at > ${change.at} and user_id <> ${change.userId}
        )
      `,
    );
    return result.count === 1;
  } catch (error) {
    if (isUniqueViolation(error, "users_email_key")) return false;
    throw error;
  }
}

async function noteFormerAddress(tx: TransactionSql, userId: string): Promise<void> {
  await tx`
    insert into former_addresses (user_id, email) select id, email from users where id = ${userId}
    on conflict do nothing
  `;
}

export async function listFormerAddresses(tx: TransactionSql, userId: string): Promise<string[]> {
  const rows = await tx<{ email: string }[]>`
    select email from former_addresses as former where user_id = ${userId}
      and not exists (select from users where users.email = former.email)
    order by email
  `;
  return rows.map(({ email }) => email);
}

/** Only a reset can set one afterwards. */
export async function clearPassword(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`
    update users
    set password_hash = null, password_epoch = password_epoch + 1, updated_at = greatest(updated_at, ${at})
    where id = ${userId}
  `;
}

/** Also true if another user has it reserved. */
export async function isAddressTaken(
  tx: TransactionSql,
  { userId, email, now }: { userId: string; email: string; now: Date },
): Promise<boolean> {
  const [row] = await tx<{ taken: boolean }[]>`
    select exists (select from users where email = ${email}) or exists (
      select from links
      where new_email = ${email} and purpose = 'undo_email_change' and consumed_at is null and expires_at > ${now}
        and user_id <> ${userId}
    ) as taken
  `;
  return row?.taken === true;
}

export interface ProfileChange {
  firstName: string | undefined;
  lastName: string | undefined;
  language: string | null | undefined;
  timeZone: string | null | undefined;
}

/** What is undefined stays unchanged. */
export async function setProfile(
  tx: TransactionSql,
  change: ProfileChange & { userId: string; at: Date },
): Promise<boolean> {
  const { language, timeZone } = change;
  const result = await tx`
    update users
    set first_name = coalesce(${change.firstName ?? null}, first_name),
      last_name = coalesce(${change.lastName ?? null}, last_name),
      language = ${language === undefined ? tx`language` : language},
      time_zone = ${timeZone === undefined ? tx`time_zone` : timeZone},
      updated_at = greatest(updated_at, ${change.at})
    where id = ${change.userId}
  `;
  return result.count === 1;
}

/** Takes no lock. */
export async function isAdmin(tx: TransactionSql, userId: string): Promise<boolean> {
  const rows = await tx`select from users where id = ${userId} and role = 'ADMIN'`;
  return rows.length > 0;
}

/** In a fixed order, so that concurrent removals see each other. */
export async function lockActiveAdmins(tx: TransactionSql): Promise<(WaysIn & { id: string })[]> {
  const rows = await tx<{ id: string }[]>`
    select id from users where role = 'ADMIN' and status = 'active' order by id for update
  `;
  // After a wait, subqueries of the locking statement would be older than the lock.
  return tx<(WaysIn & { id: string })[]>`
    select id, email_verified as "emailVerified", password_hash as "passwordHash",
      exists (select from passkeys where user_id = users.id) as "hasPasskey",
      array(select issuer from external_identities where user_id = users.id) as issuers
    from users where id = any(${rows.map(({ id }) => id)}::uuid[])
  `;
}

export interface UnusedPage {
  /** Of accounts whose address nobody proved, and that were never logged in to and own nothing. */
  ids: string[];
  /** The last account that was looked at. Undefined at the end. */
  next: AccountPosition | undefined;
}

/** Text, because a `Date` has no microseconds. */
interface AccountPosition {
  createdAt: string;
  id: string;
}

export const BEFORE_ALL_ACCOUNTS: AccountPosition = {
  createdAt: "-infinity",
  id: "00000000-0000-0000-0000-000000000000",
};

/** Looks at `limit` accounts after `after`, so that those which stay are not read again. */
export async function listUnusedAccounts(
  sql: Sql,
  { madeBefore, role, after, now }: { madeBefore: Date; role: Role; after: AccountPosition; now: Date },
  limit: number,
): Promise<UnusedPage> {
  const rows = await sql<{ id: string; createdAt: string; isUnused: boolean }[]>`
    with page as materialized (
      select id, created_at from users
      where role = ${role} and not email_verified and first_login_at is null and status = 'active'
        and created_at < ${madeBefore}
        and (created_at, id) > (${after.createdAt}::text::timestamptz, ${after.id}::uuid)
      order by created_at, id limit ${limit}
    )
    select id, created_at::text as "createdAt",
           not exists (select from external_identities where user_id = page.id)
             and not exists (select from clients where owner_id = page.id)
             and not exists (${openInvitations(sql, now)} and user_id = page.id) as "isUnused"
    from page order by created_at, id
  `;
  const last = rows.length < limit ? undefined : rows.at(-1);
  return {
    ids: rows.filter(({ isUnused }) => isUnused).map(({ id }) => id),
    next: last && { createdAt: last.createdAt, id: last.id },
  };
}

/** An invitation is a reset link that lives longer than those which strangers can ask for. */
const openInvitations = (sql: Sql | TransactionSql, now: Date) => sql`
  select from links
  where purpose = 'reset_password' and consumed_at is null and expires_at > ${now}
    and expires_at > created_at + interval '1 day'`;

/** Those of them that are still unused: a login may have begun meanwhile. */
export async function lockUnusedAccounts(
  tx: TransactionSql,
  ids: readonly string[],
  { role, now }: { role: Role; now: Date },
): Promise<Locked<Pick<Account, "id" | "email">>[]> {
  return tx<Locked<Pick<Account, "id" | "email">>[]>`
    select id, email from users
    where id = any(${ids}::uuid[])
      and role = ${role} and not email_verified and first_login_at is null and status = 'active'
      and not exists (select from external_identities where user_id = users.id)
      and not exists (select from clients where owner_id = users.id)
      and not exists (${openInvitations(tx, now)} and user_id = users.id)
    for update skip locked
  `;
}

export async function eraseUser(tx: TransactionSql, userId: string): Promise<void> {
  await tx`delete from mail_outbox where user_id = ${userId}`;
  await tx`delete from users where id = ${userId}`;
}
