import type { JWK } from "jose";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { Algorithm } from "#token-client/compact-jws.ts";
import { SLOTS } from "#token-client/session-slot.ts";
import { accessTokenLifeS, retiredKeyLifeS } from "./token-lifetimes.ts";

export type Revocation = {
  sequence: number;
  /** Random. */
  tip: string;
  /** Seconds since the epoch, database time. A small integer, because a million entries are kept. */
  expiresAtS: number;
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

/** One page of the log. */
export interface LogRead {
  /** The known position that the page follows. */
  after: number;
  /** The log is known up to here. */
  position: LogPosition;
  /** Whether that is the head. */
  isHead: boolean;
  /** Unexpired, in order. */
  revocations: Revocation[];
  keys: VerificationKey[];
  /** Undefined while they are as the caller knows them. */
  slots: HeldSlots | undefined;
  /** Database time. */
  readAt: Date;
}

/** Those whose sessions are in this database. */
export interface HeldSlots {
  /** Grows with each change. */
  changes: number;
  /** Slot 0 is the highest bit of the first byte. */
  bits: Buffer;
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

/** So that a page takes some ten milliseconds. */
const PAGE = 5_000;
/** Below the deadline of the caller, so that no statement runs on beside the next. */
const STATEMENT_TIMEOUT_MS = 900;
/** Exceeds any difference of clocks. With it an entry outlives each token that there can be. */
const KEEP_EXPIRED = "1 hour";
/** Clean-up cannot reach the last entry of a page before the next page is read. */
const KEEP_MARK = "59 minutes";

/** As PostgreSQL sends it, in one value: one row for each entry takes both sides longer. */
type Page = Omit<LogRead, "revocations" | "keys" | "readAt" | "slots"> & {
  revocations: Revocation[] | null;
  keys: VerificationKey[] | null;
  /** 0 and 1, for each slot. */
  here: string | null;
  part: number;
  changes: number;
  readAt: string;
};

/** What a reader knows. */
export interface KnownLog {
  /** Contains `LOG_BEGIN`. */
  positions: readonly LogPosition[];
  /** Of the slots. -1: nothing. */
  slotChanges: number;
}

/**
 * Reads what follows the newest of the known positions that the log still has. Expired entries count for the size of a page.
 * @param options.accessTtlS as this process is set: the one that wrote an entry may have been set to less. @param options.part the number that
 * this database must have.
 */
export async function readRevocations(
  tx: TransactionSql,
  { positions, slotChanges }: KnownLog,
  { part, accessTtlS, limit = PAGE }: { part: number; accessTtlS: number; limit?: number },
): Promise<LogRead> {
  const sequences = positions.map(({ sequence }) => sequence);
  const tips = positions.map(({ tip }) => tip);
  await tx`select set_config('statement_timeout', ${String(STATEMENT_TIMEOUT_MS)}, true)`;
  const [row] = await tx<{ page: Page }[]>`
    with head as materialized (
      select h.sequence, coalesce(r.tip::text, '') as tip
      from revocation_head as h left join revocations as r on r.sequence = h.sequence
    ), start as materialized (
      select max(k.sequence) as sequence
      from head, unnest(${sequences}::bigint[], ${tips}::text[]) as k (sequence, tip)
      where k.sequence <= head.sequence and (k.tip = '' or k.tip = coalesce(
        (select r.tip::text from revocations as r where r.sequence = k.sequence), ''
      ))
    ), page as materialized (
      select r.sequence, r.tip, r.session_id, r.key_id, r.expires_at,
             greatest(r.expires_at, r.created_at + make_interval(secs => ${accessTokenLifeS(accessTtlS)})) as live_until
      from revocations as r
      where r.sequence > (select sequence from start)
      order by r.sequence limit ${limit}
    ), last as materialized (
      select sequence, case when expires_at > now() - ${KEEP_MARK}::interval then tip::text end as tip
      from page order by sequence offset ${limit - 1} limit 1
    ), live as (
      select sequence, tip::text as tip, session_id as "sessionId", key_id as "keyId",
             ceil(extract(epoch from least(live_until, now() + interval '1 day')))::bigint as "expiresAtS"
      from page
      where live_until > now()
    )
    select json_build_object(
      'after', start.sequence, 'isHead', last is null, 'readAt', clock_timestamp(),
      'position', json_build_object(
        'sequence', coalesce(last.sequence, head.sequence),
        'tip', case when last is null then head.tip else coalesce(last.tip, '') end
      ),
      'part', part.number, 'changes', part.changes, 'here', case when part.changes <> ${slotChanges} then (
        select string_agg(case state when 'here' then '1' else '0' end, '' order by slot) from slots
      ) end,
      'revocations', (select json_agg(live order by sequence) from live),
      'keys', (
        select json_agg(json_build_object('keyId', id, 'algorithm', algorithm, 'publicJwk', public_jwk) order by id)
        from signing_keys
        where state <> 'revoked'
          and (retired_at is null or retired_at > clock_timestamp() - make_interval(secs => ${retiredKeyLifeS(accessTtlS)}))
      )
    ) as page
    from head cross join start cross join part left join last on true
  `;
  if (row === undefined) throw new Error("the revocation log has no head");
  const { revocations, keys, readAt, here, changes, part: found, ...page } = row.page;
  if (found !== part) throw new Error(`this database is part ${found} of the users, not part ${part}`);
  const slots = here === null ? undefined : { changes, bits: toBits(here) };
  return { ...page, revocations: revocations ?? [], keys: keys ?? [], slots, readAt: new Date(readAt) };
}

function toBits(digits: string): Buffer {
  return Buffer.from(
    Array.from({ length: SLOTS / 8 }, (_, byte) => Number.parseInt(digits.slice(byte * 8, byte * 8 + 8), 2)),
  );
}

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
