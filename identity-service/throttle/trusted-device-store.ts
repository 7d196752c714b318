import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

/** A browser in which a login needs no code. */
export interface TrustedDevice {
  /** UUID, as its owner sees it. */
  id: string;
  createdAt: Date;
  expiresAt: Date;
  lastUsedAt: Date;
  /** Address and browser are those of the last login. */
  clientIp: string;
  userAgent: string;
}

export interface NewTrustedDevice extends TrustedDevice {
  userId: string;
  /** The id that the device token names. */
  deviceId: string;
  /** SHA-256. */
  secretHash: Buffer;
  sessionEpoch: number;
}

/** As a device token shows it. */
export interface ShownTrust extends Pick<NewTrustedDevice, "userId" | "deviceId" | "secretHash"> {
  now: Date;
  /** Older ones count no more. */
  createdAfter: Date;
}

/** Returns the id, undefined if it has ended. */
export async function findTrust(sql: Sql, shown: ShownTrust): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select trust.id from trusted_devices as trust, users
    where ${isLive(sql, shown)} and trust.device_id = ${shown.deviceId} and secret_hash = ${shown.secretHash}
  `;
  return row?.id;
}

/** Replaces the secret. Returns false if the trust has ended, or another login has replaced the secret. */
export async function renewTrust(
  tx: TransactionSql,
  shown: ShownTrust,
  next: Pick<NewTrustedDevice, "secretHash" | "clientIp" | "userAgent">,
): Promise<boolean> {
  const result = await tx`
    update trusted_devices as trust
    set secret_hash = ${next.secretHash}, last_used_at = greatest(last_used_at, ${shown.now}), ip = ${next.clientIp},
      user_agent = ${next.userAgent}
    from users
    where ${isLive(tx, shown)} and trust.device_id = ${shown.deviceId} and secret_hash = ${shown.secretHash}
  `;
  return result.count === 1;
}

/** Returns the id of the trust whose present secret is another one. */
export async function deleteTrustOfReplacedSecret(
  tx: TransactionSql,
  { userId, deviceId, secretHash }: Pick<NewTrustedDevice, "userId" | "deviceId" | "secretHash">,
): Promise<string | undefined> {
  const [row] = await tx<{ id: string }[]>`
    delete from trusted_devices
    where user_id = ${userId} and device_id = ${deviceId} and secret_hash <> ${secretHash}
    returning id
  `;
  return row?.id;
}

/** Requires the account lock. Replaces the trust of the same device; the oldest of `max` makes room. */
export async function insertTrust(tx: TransactionSql, trust: NewTrustedDevice, max: number): Promise<void> {
  const { id, userId, deviceId, secretHash, sessionEpoch, createdAt, expiresAt, lastUsedAt } = trust;
  await tx`
    delete from trusted_devices where user_id = ${userId} and id not in (
      select id from trusted_devices
      where user_id = ${userId} and device_id <> ${deviceId} and session_epoch = ${sessionEpoch}
        and expires_at > ${createdAt}
      order by created_at desc, id desc limit ${max - 1}
    )
  `;
  await tx`
    insert into trusted_devices
      (id, user_id, device_id, secret_hash, session_epoch, created_at, expires_at, last_used_at, ip, user_agent)
    values
      (${id}, ${userId}, ${deviceId}, ${secretHash}, ${sessionEpoch}, ${createdAt}, ${expiresAt}, ${lastUsedAt},
       ${trust.clientIp}, ${trust.userAgent})
  `;
}

/** Newest first. */
export async function listTrusts(
  sql: Sql,
  which: Pick<ShownTrust, "userId" | "now" | "createdAfter">,
): Promise<TrustedDevice[]> {
  return sql<TrustedDevice[]>`
    select trust.id, trust.created_at as "createdAt", expires_at as "expiresAt", last_used_at as "lastUsedAt",
      ip as "clientIp", user_agent as "userAgent"
    from trusted_devices as trust, users
    where ${isLive(sql, which)} order by trust.created_at desc, trust.id desc
  `;
}

/** Returns false for an unknown one, or another user's. */
export async function deleteTrust(
  tx: TransactionSql,
  { userId, id }: { userId: string; id: string },
): Promise<boolean> {
  const result = await tx`delete from trusted_devices where id = ${id} and user_id = ${userId}`;
  return result.count === 1;
}

/** For changes of a factor that end no session. */
export async function deleteTrustsOfUser(tx: TransactionSql, userId: string): Promise<void> {
  await tx`delete from trusted_devices where user_id = ${userId}`;
}

export async function deleteEndedTrusts(sql: Sql, endedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from trusted_devices where id = any(array(
      select id from trusted_devices where expires_at < ${endedBefore}
      order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}

function isLive(
  sql: Sql | TransactionSql,
  { userId, now, createdAfter }: Pick<ShownTrust, "userId" | "now" | "createdAfter">,
) {
  return sql`
    trust.user_id = ${userId} and users.id = trust.user_id and users.status = 'active'
    and users.session_epoch = trust.session_epoch and expires_at > ${now} and trust.created_at > ${createdAfter}
  `;
}
