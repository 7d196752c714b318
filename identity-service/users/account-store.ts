import {
  isUniqueViolation,
  type Sql,
  type SqlPart,
  type TransactionSql,
} from "../../service-kit/postgres.ts";

export interface LockedAccount {
  id: string;
  email: string;
  emailVerified: boolean;
  /** When password or identity and access to the current mailbox were last proven together. Null if never. */
  credentialsProvenAt: Date | null;
  isActive: boolean;
  isAdmin: boolean;
  /** Any role except USER. */
  isPrivileged: boolean;
  /** PHC string. Null without a password. */
  passwordHash: string | null;
  mustChangePassword: boolean;
  /** Increases with each change that ends sessions. */
  sessionEpoch: number;
}

async function selectAccount(sql: Sql | TransactionSql, which: SqlPart): Promise<LockedAccount | undefined> {
  const [row] = await sql<LockedAccount[]>`
    select id, email, email_verified as "emailVerified",
      case when credentials_proven_email = email then credentials_proven_at end as "credentialsProvenAt",
      status = 'active' as "isActive", role = 'ADMIN' as "isAdmin", role <> 'USER' as "isPrivileged",
      password_hash as "passwordHash", must_change_password as "mustChangePassword", session_epoch as "sessionEpoch"
    from users where ${which}
  `;
  return row;
}

/** Must be the first lock of a transaction. */
export function lockAccount(tx: TransactionSql, userId: string): Promise<LockedAccount | undefined> {
  return selectAccount(tx, tx`id = ${userId} for update`);
}

export function lockAccountByEmail(tx: TransactionSql, email: string): Promise<LockedAccount | undefined> {
  return selectAccount(tx, tx`email = ${email} for update`);
}

export function findAccountById(
  sql: Sql | TransactionSql,
  userId: string,
): Promise<LockedAccount | undefined> {
  return selectAccount(sql, sql`id = ${userId}`);
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

/** Unproven with the new address. Returns false if it is taken or reserved; the transaction cannot continue then. */
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

/** A password can then be set only by a reset. */
export async function clearPassword(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  await tx`
    update users
    set password_hash = null, password_epoch = password_epoch + 1, updated_at = greatest(updated_at, ${at})
    where id = ${userId}
  `;
}

/** Whether an account has the address or another user has it reserved. */
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

/** Undefined names stay unchanged. */
export async function setNames(
  tx: TransactionSql,
  change: { userId: string; firstName: string | undefined; lastName: string | undefined; at: Date },
): Promise<boolean> {
  const result = await tx`
    update users
    set first_name = coalesce(${change.firstName ?? null}, first_name),
      last_name = coalesce(${change.lastName ?? null}, last_name),
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

/** Locks in a fixed order, so that concurrent removals see each other. */
export async function lockActiveAdmins(tx: TransactionSql): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    select id from users where role = 'ADMIN' and status = 'active' order by id for update
  `;
  return rows.map(({ id }) => id);
}

/** Locks at most `limit` unverified, never used accounts, oldest first. */
export async function lockUnusedAccounts(
  tx: TransactionSql,
  madeBefore: Date,
  limit: number,
): Promise<{ id: string; email: string }[]> {
  return tx<{ id: string; email: string }[]>`
    select id, email from users
    where not email_verified and first_login_at is null and created_at < ${madeBefore}
      and role = 'USER' and status = 'active'
      and not exists (select from external_identities where user_id = users.id)
    order by created_at limit ${limit} for update skip locked
  `;
}

export async function eraseUser(tx: TransactionSql, userId: string): Promise<void> {
  await tx`delete from mail_outbox where user_id = ${userId}`;
  await tx`delete from users where id = ${userId}`;
}
