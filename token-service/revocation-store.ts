import type { Sql, TransactionSql } from "../service-kit/postgres.ts";
import type { Algorithm } from "./jws-signature.ts";

/** One entry of the revocation log. */
export type Revocation = {
  sequence: number;
  /** A random mark of this entry; empty for entries of before marks were made. */
  tip: string;
  /** By the database's clock. */
  expiresAt: Date;
  /** Seconds from the read until then. */
  remainingS: number;
} & ({ sessionId: string; keyId: null } | { sessionId: null; keyId: string });

type Target = { sessionId: string } | { keyId: string };

/** A place in the log: the number of an entry and its mark. The mark is empty where it is not known. */
export interface LogPosition {
  sequence: number;
  tip: string;
}

export const LOG_BEGIN: LogPosition = { sequence: 0, tip: "" };

/** A signing key as the log's snapshot names it. */
export interface VerificationKey {
  keyId: string;
  algorithm: Algorithm;
}

/** What one read of the log found, as one snapshot of the database. */
export interface LogRead {
  head: LogPosition;
  /** False if the log does not hold the entry that the reader named: then `revocations` is all of it. */
  isContinued: boolean;
  /** Unexpired entries in order. */
  revocations: Revocation[];
  /** Keys whose tokens may be accepted. */
  keys: VerificationKey[];
  /** The database's time. */
  readAt: Date;
}

/**
 * Appends to the log. The head's row stays locked until the commit, which makes the numbers gapless and their
 * order the order of commits; take every other lock before.
 *
 * @param lifeS how long every token that the targets speak of may still live, in seconds from now.
 * @returns the number of the last one.
 */
export async function appendRevocations(
  tx: TransactionSql,
  targets: readonly Target[],
  lifeS: number,
): Promise<number> {
  if (targets.length === 0) return headOf(tx);
  const sessionIds = targets.map((target) => ("sessionId" in target ? target.sessionId : null));
  const keyIds = targets.map((target) => ("keyId" in target ? target.keyId : null));
  // The end goes by the database's clock, after the wait for the head: a process's clock may be wrong.
  const rows = await tx<{ sequence: string }[]>`
    with head as (
      update revocation_head set sequence = sequence + ${targets.length} returning sequence
    )
    insert into revocations (sequence, session_id, key_id, expires_at)
    select head.sequence - ${targets.length}::integer + target.position, target.session_id, target.key_id,
           clock_timestamp() + make_interval(secs => ${lifeS})
    from head, unnest(${sessionIds}::uuid[], ${keyIds}::text[]) with ordinality
      as target (session_id, key_id, position)
    returning sequence
  `;
  return Math.max(...rows.map(({ sequence }) => Number(sequence)));
}

async function headOf(tx: TransactionSql): Promise<number> {
  const [head] = await tx<{ sequence: string }[]>`select sequence from revocation_head`;
  return Number(head?.sequence);
}

type Row =
  | ({ facts: null; sequence: string } & Omit<Revocation, "sequence">)
  | {
      facts: { isContinued: boolean; keys: VerificationKey[] | null };
      sequence: string;
      tip: string;
      expiresAt: Date;
    };

/** The log's head, and every unexpired entry after a position in order, as one snapshot. */
export async function readRevocations(sql: Sql, after: LogPosition): Promise<LogRead> {
  const rows = await sql<Row[]>`
    with head as materialized (
      select h.sequence, coalesce(r.tip::text, '') as tip
      from revocation_head as h left join revocations as r on r.sequence = h.sequence
    ), start as materialized (
      select ${after.sequence} <= head.sequence and (${after.tip} = '' or ${after.tip} = coalesce(
        (select r.tip::text from revocations as r where r.sequence = ${after.sequence}), ''
      )) as is_continued
      from head
    )
    select head.sequence, head.tip, null::uuid as "sessionId", null::text as "keyId", clock_timestamp() as "expiresAt",
           null::float8 as "remainingS",
           json_build_object('isContinued', start.is_continued, 'keys', (
             select json_agg(json_build_object('keyId', id, 'algorithm', algorithm) order by id)
             from signing_keys where state <> 'revoked'
           )) as facts
    from head, start
    union all
    select r.sequence, coalesce(r.tip::text, ''), r.session_id, r.key_id, r.expires_at,
           extract(epoch from r.expires_at - now())::float8, null
    from revocations as r
    where r.sequence > (select case when is_continued then ${after.sequence}::bigint else 0 end from start)
      and r.expires_at > now()
    order by sequence
  `;
  return toLogRead(rows);
}

function toLogRead(rows: readonly Row[]): LogRead {
  const read: LogRead = {
    head: LOG_BEGIN,
    isContinued: false,
    revocations: [],
    keys: [],
    readAt: new Date(0),
  };
  for (const { facts, sequence, ...row } of rows) {
    if (facts === null) {
      read.revocations.push({ ...row, sequence: Number(sequence) } as Revocation);
      continue;
    }
    read.head = { sequence: Number(sequence), tip: row.tip };
    read.isContinued = facts.isContinued;
    read.keys = facts.keys ?? [];
    read.readAt = row.expiresAt;
  }
  return read;
}

/** Far beyond any difference of clocks. */
const KEEP_EXPIRED = "1 hour";

/**
 * Forgets what no token can match any more, by the database's clock. The newest entry stays: its mark tells readers that
 * nothing was lost since.
 *
 * @returns how many.
 */
export async function deleteExpiredRevocations(sql: Sql, limit: number): Promise<number> {
  const result = await sql`
    delete from revocations where sequence in (
      select sequence from revocations
      where expires_at < now() - ${KEEP_EXPIRED}::interval
        and sequence < (select sequence from revocation_head)
      order by sequence limit ${limit}
    )
  `;
  return result.count;
}
