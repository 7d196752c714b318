import type { Sql, TransactionSql } from "../service-kit/postgres.ts";

/** A session as stored. */
export interface SessionRow {
  id: string;
  userId: string;
  role: "USER" | "ADMIN" | "AUDITOR";
  amr: string[];
  authTime: Date;
  tokenSecret: Buffer;
  generation: number;
  rotatedAt: Date;
  leafSeen: boolean;
  createdAt: Date;
  lastUsedAt: Date;
  idleEnd: Date;
  absoluteEnd: Date;
  revokedAt: Date | null;
  ip: string;
  userAgent: string;
}

function columns(sql: Sql | TransactionSql) {
  return sql`
    id, user_id as "userId", role, amr, auth_time as "authTime", token_secret as "tokenSecret", generation,
    rotated_at as "rotatedAt", leaf_seen as "leafSeen", created_at as "createdAt", last_used_at as "lastUsedAt",
    idle_end as "idleEnd", absolute_end as "absoluteEnd", revoked_at as "revokedAt", ip, user_agent as "userAgent"
  `;
}

/** Whoever begins a session of a user, or ends several, holds this until the transaction ends. Taken before any row. */
export async function lockUser(tx: TransactionSql, userId: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${userId}, 0))`;
}

export async function insertSession(tx: TransactionSql, session: SessionRow): Promise<void> {
  await tx`
    insert into sessions
      (id, user_id, role, amr, auth_time, token_secret, generation, rotated_at, leaf_seen, created_at, last_used_at,
       idle_end, absolute_end, ip, user_agent, last_signed_at)
    values
      (${session.id}, ${session.userId}, ${session.role}, ${session.amr}, ${session.authTime}, ${session.tokenSecret},
       ${session.generation}, ${session.rotatedAt}, ${session.leafSeen}, ${session.createdAt}, ${session.lastUsedAt},
       ${session.idleEnd}, ${session.absoluteEnd}, ${session.ip}, ${session.userAgent},
       clock_timestamp())
  `;
}

export type LockedSession = SessionRow & {
  /** No signing was noted lately, by the database's clock. */
  signedLongAgo: boolean;
};

/** Locks the session until the transaction ends: refresh, logout and every other end begin here. */
export async function lockSession(tx: TransactionSql, sessionId: string): Promise<LockedSession | undefined> {
  const [row] = await tx<LockedSession[]>`
    select ${columns(tx)}, coalesce(last_signed_at < clock_timestamp() - interval '10 seconds', true) as "signedLongAgo"
    from sessions where id = ${sessionId} for update
  `;
  return row;
}

/** Locks the live sessions of a user, oldest first. Under `lockUser`. */
export async function lockLiveSessions(tx: TransactionSql, userId: string): Promise<SessionRow[]> {
  return tx<SessionRow[]>`
    select ${columns(tx)} from sessions
    where user_id = ${userId} and revoked_at is null and idle_end > now()
    order by created_at, id
    for update
  `;
}

/** The live sessions of a user, newest first. */
export async function listLiveSessions(sql: Sql, userId: string): Promise<SessionRow[]> {
  return sql<SessionRow[]>`
    select ${columns(sql)} from sessions
    where user_id = ${userId} and revoked_at is null and idle_end > now()
    order by created_at desc, id desc
  `;
}

/** Makes the next generation the leaf. The row is locked. */
export async function advanceGeneration(
  tx: TransactionSql,
  sessionId: string,
  next: Pick<SessionRow, "generation" | "rotatedAt" | "idleEnd" | "ip" | "userAgent">,
): Promise<void> {
  await tx`
    update sessions
    set generation = ${next.generation}, rotated_at = ${next.rotatedAt}, leaf_seen = false, idle_end = ${next.idleEnd},
        last_used_at = ${next.rotatedAt}, ip = ${next.ip}, user_agent = ${next.userAgent},
        last_signed_at = clock_timestamp()
    where id = ${sessionId}
  `;
}

/** Before tokens of an unchanged session are signed again. The row is locked. */
export async function noteSigning(tx: TransactionSql, sessionId: string): Promise<void> {
  await tx`update sessions set last_signed_at = clock_timestamp() where id = ${sessionId}`;
}

/** Ends sessions whose rows are locked. */
export async function markSessionsRevoked(
  tx: TransactionSql,
  sessionIds: readonly string[],
  reason: string,
  now: Date,
): Promise<void> {
  await tx`
    update sessions set revoked_at = ${now}, revoked_reason = ${reason}
    where id in ${tx([...sessionIds])} and revoked_at is null
  `;
}

/**
 * Looks at the next sessions after `cursor`, in the order of their ids, and ends the live ones that began before a moment.
 *
 * @param which.signedSince by the database's clock.
 * @returns those that were ended, with whether a token of theirs may have been signed since `signedSince`; and where to
 *   go on; undefined at the end.
 */
export async function revokeNextSessions(
  tx: TransactionSql,
  which: { issuedBefore: Date; signedSince: Date; cursor: string | undefined; limit: number },
  reason: string,
): Promise<{ ended: { id: string; maybeSignedSince: boolean }[]; cursor: string | undefined }> {
  const after = which.cursor ?? "00000000-0000-0000-0000-000000000000";
  const [looked] = await tx<{ seen: number; last: string | null }[]>`
    select count(*)::integer as seen, max(id::text) as last
    from (select id from sessions where id > ${after} order by id limit ${which.limit}) as page
  `;
  const last = looked?.last ?? after;
  // Locked in the order in which a user's sessions are ended.
  const ended = await tx<{ id: string; maybeSignedSince: boolean }[]>`
    with live as materialized (
      select id from sessions
      where id > ${after} and id <= ${last} and created_at < ${which.issuedBefore} and revoked_at is null
        and idle_end > now()
      order by created_at, id
      for update
    )
    update sessions as s set revoked_at = now(), revoked_reason = ${reason}
    from live where s.id = live.id
    returning s.id, (
      greatest(s.rotated_at, s.last_signed_at) >= ${which.signedSince}
      -- A replica of the version before signs a repeated refresh without a note, and only while the leaf is unseen.
      or (s.last_signed_at is null and not s.leaf_seen)
    ) as "maybeSignedSince"
  `;
  return { ended, cursor: (looked?.seen ?? 0) < which.limit ? undefined : last };
}

/** Forgets where a user's sessions were used from, the ended ones too. What remains are ids and times. */
export async function eraseOrigins(tx: TransactionSql, userId: string): Promise<void> {
  // Each half is found by an index of its own.
  await tx`update sessions set ip = '', user_agent = '' where user_id = ${userId} and revoked_at is null`;
  await tx`update sessions set ip = '', user_agent = '' where user_id = ${userId} and revoked_at is not null`;
}

/** A generation of a session, one of whose access tokens was seen in use. */
export interface SeenLeaf {
  sessionId: string;
  generation: number;
}

/** Marks leaves as seen in use. At most one write a leaf: what is marked, or no longer the leaf, is left alone. */
export async function markLeavesSeen(sql: Sql, leaves: readonly SeenLeaf[], now: Date): Promise<void> {
  const ids = leaves.map((leaf) => leaf.sessionId);
  const generations = leaves.map((leaf) => leaf.generation);
  // Locked in the order in which a user's sessions are ended, so that the two never wait for each other in a circle.
  await sql`
    with held as materialized (
      select s.id from sessions as s
      join unnest(${ids}::uuid[], ${generations}::integer[]) as seen (id, generation)
        on s.id = seen.id and s.generation = seen.generation
      where not s.leaf_seen and s.revoked_at is null
      order by s.created_at, s.id
      for update of s
    )
    update sessions as s
    set leaf_seen = true, last_used_at = greatest(s.last_used_at, ${now})
    from held
    where s.id = held.id
  `;
}

/** Sessions are kept so long beyond their idle end, however they ended, to answer questions about them. */
const KEEP_ENDED = "1 day";

/**
 * Looks at the next sessions after `cursor`, in the order of their ids, and deletes those that ended long ago by the
 * database's clock, without waiting for rows that somebody holds. A sweep instead of an index on the end, which every
 * refresh moves.
 *
 * @param cursor where the last look ended; undefined to begin.
 * @returns how many were deleted, and where to go on; undefined at the end.
 */
export async function sweepSessions(
  sql: Sql,
  cursor: string | undefined,
  limit: number,
): Promise<{ deleted: number; cursor: string | undefined }> {
  const [result] = await sql<{ seen: number; last: string | null; deleted: number }[]>`
    with looked as materialized (
      select id from sessions
      where id > ${cursor ?? "00000000-0000-0000-0000-000000000000"} order by id limit ${limit}
    ), ended as (
      select id from sessions
      where id in (select id from looked) and idle_end < now() - ${KEEP_ENDED}::interval
      for update skip locked
    ), gone as (
      delete from sessions where id in (select id from ended) returning 1
    )
    select (select count(*)::integer from looked) as seen, (select max(id::text) from looked) as last,
           (select count(*)::integer from gone) as deleted
  `;
  const isEnd = (result?.seen ?? 0) < limit;
  return { deleted: result?.deleted ?? 0, cursor: isEnd ? undefined : (result?.last ?? undefined) };
}
