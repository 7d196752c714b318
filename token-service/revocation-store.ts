import type { JWK } from "jose";
import type { Sql, TransactionSql } from "../service-kit/postgres.ts";
import type { Algorithm } from "../token-client/token-signature.ts";

export type Revocation = {
  sequence: number;
  /** Random. Empty for entries older than tips. */
  tip: string;
  /** Database time. */
  expiresAt: Date;
  /** Seconds from the read to `expiresAt`. */
  remainingS: number;
} & ({ sessionId: string; keyId: null } | { sessionId: null; keyId: string });

type Target = { sessionId: string } | { keyId: string };

export interface LogPosition {
  sequence: number;
  tip: string;
}

export const LOG_BEGIN: LogPosition = { sequence: 0, tip: "" };

export interface VerificationKey {
  keyId: string;
  algorithm: Algorithm;
  publicJwk: JWK;
}

export interface LogRead {
  head: LogPosition;
  /** Otherwise `revocations` is the whole log. */
  isContinued: boolean;
  /** Unexpired, in order. */
  revocations: Revocation[];
  keys: VerificationKey[];
  /** Database time. */
  readAt: Date;
}

/**
 * The lock on the head, to be taken last, makes numbers gapless and in commit order. @param lifeS longest
 * remaining life of the tokens. @returns the last number.
 */
export async function appendRevocations(
  tx: TransactionSql,
  targets: readonly Target[],
  lifeS: number,
): Promise<number> {
  if (targets.length === 0) return readHead(tx);
  const sessionIds = targets.map((target) => ("sessionId" in target ? target.sessionId : null));
  const keyIds = targets.map((target) => ("keyId" in target ? target.keyId : null));
  // The database's clock after the lock wait decides, because a process's may be wrong.
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

async function readHead(tx: TransactionSql): Promise<number> {
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

/** @param keyLifeS how long after its end a key is still in `keys`. */
export async function readRevocations(sql: Sql, after: LogPosition, keyLifeS: number): Promise<LogRead> {
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
             select json_agg(json_build_object('keyId', id, 'algorithm', algorithm, 'publicJwk', public_jwk) order by id)
             from signing_keys
             where state <> 'revoked'
               and (retired_at is null or retired_at > clock_timestamp() - make_interval(secs => ${keyLifeS}))
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

/** Exceeds any difference of clocks. */
const KEEP_EXPIRED = "1 hour";

/** The newest entry stays, because readers compare its tip. */
export async function deleteExpiredRevocations(sql: Sql, limit: number): Promise<number> {
  const result = await sql`
    delete from revocations where sequence in (
      select sequence from revocations
      where expires_at < now() - ${KEEP_EXPIRED}::interval
        and sequence < (select sequence from revocation_head)
      order by expires_at limit ${limit}
    )
  `;
  return result.count;
}
