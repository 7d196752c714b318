import type { JWK } from "jose";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { AssuranceLevel } from "#token-client/assurance.ts";
import { slotOfSession } from "#token-client/session-slot.ts";
import type { Binding } from "./confirmation.ts";
import { assertHere, SlotAwayError } from "./slot-store.ts";
import { slotOfUser } from "./user-slot.ts";

export interface SessionRow extends Binding {
  id: string;
  userId: string;
  /** Named as in `access.yaml`. */
  role: string;
  amr: string[];
  acr: AssuranceLevel;
  /** Last moment at which the session reached `acr`. */
  authTime: Date;
  tokenSecret: Buffer;
  generation: number;
  rotatedAt: Date;
  leafSeen: boolean;
  createdAt: Date;
  lastUsedAt: Date;
  /** Seconds between refreshes. Null: as the service is set. */
  idleS: number | null;
  idleEnd: Date;
  absoluteEnd: Date;
  revokedAt: Date | null;
  ip: string;
  userAgent: string;
  /** The key of the browser's device. Null: the session is not bound to one. */
  deviceKey: JWK | null;
  /** So far. The next challenge has this number. */
  deviceProofs: number;
}

function columns(sql: Sql | TransactionSql) {
  return sql`
    id, user_id as "userId", role, amr, auth_time as "authTime", acr, token_secret as "tokenSecret", generation,
    rotated_at as "rotatedAt", leaf_seen as "leafSeen", created_at as "createdAt", last_used_at as "lastUsedAt",
    idle_s as "idleS", idle_end as "idleEnd", absolute_end as "absoluteEnd", revoked_at as "revokedAt", ip, user_agent as "userAgent",
    jkt, x5t_s256 as "x5tS256", device_key as "deviceKey", device_proofs as "deviceProofs"
  `;
}

/** Taken before row locks, when a session begins or several end. @throws {SlotAwayError} */
export async function lockUser(tx: TransactionSql, userId: string): Promise<void> {
  const slot = slotOfUser(userId);
  const { count } = await tx`
    select pg_advisory_xact_lock(hashtextextended(${userId}, 0)) from slots
    where slot = ${slot} and state = 'here' for key share
  `;
  if (count === 0) throw new SlotAwayError(slot);
}

/** Takes `lockUser` for the statement, so that no end of all sessions misses it. @throws {SlotAwayError} */
export async function insertSession(sql: Sql | TransactionSql, session: SessionRow): Promise<void> {
  const slot = slotOfUser(session.userId);
  const { count } = await sql`
    with locked as materialized (
      select pg_advisory_xact_lock(hashtextextended(${session.userId}, 0)) from slots
      where slot = ${slot} and state = 'here' for key share
    )
    insert into sessions
      (id, user_id, role, amr, auth_time, token_secret, generation, rotated_at, leaf_seen, created_at, last_used_at,
       idle_end, absolute_end, ip, user_agent, acr, idle_s, jkt, x5t_s256, last_signed_at)
    select ${session.id}, ${session.userId}, ${session.role}, ${session.amr}, ${session.authTime}, ${session.tokenSecret},
       ${session.generation}, ${session.rotatedAt}, ${session.leafSeen}, ${session.createdAt}, ${session.lastUsedAt},
       ${session.idleEnd}, ${session.absoluteEnd}, ${session.ip}, ${session.userAgent},
       ${session.acr}, ${session.idleS}, ${session.jkt}, ${session.x5tS256}, clock_timestamp()
    from locked
  `;
  if (count === 0) throw new SlotAwayError(slot);
}

export async function countLiveSessions(
  sql: Sql | TransactionSql,
  userId: string,
  now: Date,
): Promise<number> {
  const [row] = await sql<{ live: number }[]>`
    select count(*)::integer as live from sessions
    where user_id = ${userId} and revoked_at is null and idle_end > ${now}
  `;
  return row?.live ?? 0;
}

export type LockedSession = SessionRow & {
  /** No signing in the last 10 s, by the database's clock. */
  signedLongAgo: boolean;
};

/** @throws {SlotAwayError} */
export async function readSession(
  sql: Sql | TransactionSql,
  sessionId: string,
): Promise<SessionRow | undefined> {
  const [row] = await sql<SessionRow[]>`select ${columns(sql)} from sessions where id = ${sessionId}`;
  if (row === undefined) await assertHere(sql, [slotOfSession(sessionId)]);
  return row;
}

/** Whoever ends or raises one session, or refreshes it against a second call, holds this lock. @throws {SlotAwayError} */
export async function lockSession(tx: TransactionSql, sessionId: string): Promise<LockedSession | undefined> {
  const [row] = await tx<LockedSession[]>`
    select ${columns(tx)}, last_signed_at < clock_timestamp() - interval '10 seconds' as "signedLongAgo"
    from sessions where id = ${sessionId} for update
  `;
  if (row === undefined) await assertHere(tx, [slotOfSession(sessionId)]);
  return row;
}

/** The database ends a session by its clock, a refresh by the process's, and access tokens outlive it by their skew. */
const CLOCK_ROOM = "1 minute";

/** Oldest first. The caller holds `lockUser`. */
export async function lockLiveSessions(tx: TransactionSql, userId: string): Promise<SessionRow[]> {
  return tx<SessionRow[]>`
    select ${columns(tx)} from sessions
    where user_id = ${userId} and revoked_at is null and idle_end > now() - ${CLOCK_ROOM}::interval
    order by created_at, id
    for update
  `;
}

/** Newest first. @throws {SlotAwayError} */
export async function listLiveSessions(sql: Sql, userId: string): Promise<SessionRow[]> {
  const rows = await sql<SessionRow[]>`
    select ${columns(sql)} from sessions
    where user_id = ${userId} and revoked_at is null and idle_end > now()
    order by created_at desc, id desc
  `;
  if (rows.length === 0) await assertHere(sql, [slotOfUser(userId)]);
  return rows;
}

export type NextGeneration = Pick<SessionRow, "rotatedAt" | "idleEnd" | "ip" | "userAgent">;

/** @returns the session as it is then; undefined if it has ended, or another refresh has come first. */
export async function advanceLiveGeneration(
  sql: Sql | TransactionSql,
  session: SessionRow,
  next: NextGeneration,
): Promise<SessionRow | undefined> {
  const { id, generation } = session;
  // What else may have changed since the session was read, and is in tokens.
  const [row] = await sql<Pick<SessionRow, "acr" | "amr" | "authTime">[]>`
    update sessions
    set generation = ${generation + 1}, rotated_at = ${next.rotatedAt}, leaf_seen = false, idle_end = ${next.idleEnd},
        last_used_at = ${next.rotatedAt}, ip = ${next.ip}, user_agent = ${next.userAgent}, last_signed_at = statement_timestamp()
    where id = ${id} and generation = ${generation} and revoked_at is null and idle_end > ${next.rotatedAt}
    returning acr, amr, auth_time as "authTime"
  `;
  const advanced = { generation: generation + 1, leafSeen: false, lastUsedAt: next.rotatedAt };
  return row && { ...session, ...next, ...advanced, ...row };
}

/** Counts a proof. @param key binds the session, which must not be bound yet. @returns whether it is the first of its number. */
export async function countDeviceProof(
  sql: Sql | TransactionSql,
  { id, deviceProofs }: Pick<SessionRow, "id" | "deviceProofs">,
  key: JWK,
): Promise<boolean> {
  const { count } = await sql`
    update sessions set device_key = ${sql.json(key as never)}, device_proofs = device_proofs + 1
    where id = ${id} and device_proofs = ${deviceProofs} and revoked_at is null
  `;
  return count === 1;
}

/** The caller holds the row lock. */
export async function raiseAssurance(
  tx: TransactionSql,
  sessionId: string,
  { acr, amr, authTime }: Pick<SessionRow, "acr" | "amr" | "authTime">,
): Promise<void> {
  await tx`
    update sessions
    set acr = ${acr}, amr = ${amr}, auth_time = ${authTime}, last_signed_at = statement_timestamp()
    where id = ${sessionId}
  `;
}

/** Runs before tokens are signed again. The caller holds the row lock. */
export async function noteSigning(tx: TransactionSql, sessionId: string): Promise<void> {
  await tx`update sessions set last_signed_at = statement_timestamp() where id = ${sessionId}`;
}

/** The caller holds the row locks. */
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
 * Ordered by id. @returns the ended sessions, and whether their tokens may be newer than `signedSince` (database
 * clock).
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
  // The lock order of all ends of a user's sessions.
  const ended = await tx<{ id: string; maybeSignedSince: boolean }[]>`
    with live as materialized (
      select id from sessions
      where id > ${after} and id <= ${last} and created_at < ${which.issuedBefore} and revoked_at is null
        and idle_end > now() - ${CLOCK_ROOM}::interval
      order by created_at, id
      for update
    )
    update sessions as s set revoked_at = now(), revoked_reason = ${reason}
    from live where s.id = live.id
    returning s.id, greatest(s.rotated_at, s.last_signed_at) >= ${which.signedSince} as "maybeSignedSince"
  `;
  return { ended, cursor: (looked?.seen ?? 0) < which.limit ? undefined : last };
}

/** Only ids and times remain. */
export async function eraseOrigins(tx: TransactionSql, userId: string): Promise<void> {
  // Each statement uses its own index.
  await tx`update sessions set ip = '', user_agent = '' where user_id = ${userId} and revoked_at is null`;
  await tx`update sessions set ip = '', user_agent = '' where user_id = ${userId} and revoked_at is not null`;
}

/** An access token of this generation was used. */
export interface SeenLeaf {
  sessionId: string;
  generation: number;
}

/** @throws {SlotAwayError} */
export async function markLeavesSeen(sql: Sql, leaves: readonly SeenLeaf[], now: Date): Promise<void> {
  const ids = leaves.map((leaf) => leaf.sessionId);
  const generations = leaves.map((leaf) => leaf.generation);
  // The lock order of all ends of a user's sessions.
  const { count } = await sql`
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
  if (count < leaves.length) await assertHere(sql, [...new Set(ids.map(slotOfSession))]);
}

/** After the idle end, or the revocation: tokens of a session without a row are refused as those of a revoked one. */
const KEEP_ENDED = "1 day";

/**
 * Looks at sessions in id order, because every refresh would change an index on the idle end. @returns the next
 * cursor.
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
      where id in (select id from looked) and least(idle_end, revoked_at) < now() - ${KEEP_ENDED}::interval
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
