import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { Places } from "../stream/event-source.ts";

export type CollectorName = "otlp" | "syslog" | "segments";

export interface StoredCollector {
  places: Places;
  failingSince: Date | null;
}

/** Of one run of one collector, so that a run that comes back late stores nothing. */
export interface CollectorLease {
  name: CollectorName;
  holder: string;
  leaseMs: number;
}

/** @returns undefined while somebody else holds it. A new collector begins at the beginning of the logs. */
export async function claimCollector(
  sql: Sql | TransactionSql,
  { name, holder, leaseMs }: CollectorLease,
): Promise<StoredCollector | undefined> {
  const [row] = await sql<StoredCollector[]>`
    insert into siem_collectors as stored (name, lease_holder, leased_until)
    values (${name}, ${holder}, now() + make_interval(secs => ${leaseMs / 1_000}))
    on conflict (name) do update set lease_holder = excluded.lease_holder, leased_until = excluded.leased_until
      where stored.leased_until is null or stored.leased_until <= now()
    returning places, failing_since as "failingSince"
  `;
  return row;
}

/** False if the lease has ended. */
export async function renewCollector(
  sql: Sql | TransactionSql,
  { name, holder, leaseMs }: CollectorLease,
): Promise<boolean> {
  const rows = await sql`
    update siem_collectors set leased_until = now() + make_interval(secs => ${leaseMs / 1_000})
    where name = ${name} and lease_holder = ${holder} and leased_until > now() returning name
  `;
  return rows.length > 0;
}

/** False if the lease has ended: nothing was stored. */
export async function savePlaces(
  sql: Sql | TransactionSql,
  { name, holder }: CollectorLease,
  places: Places,
): Promise<boolean> {
  const rows = await sql`
    update siem_collectors set places = ${sql.json(places)}, failing_since = null, problem = ''
    where name = ${name} and lease_holder = ${holder} and leased_until > now() returning name
  `;
  return rows.length > 0;
}

export async function saveProblem(
  sql: Sql | TransactionSql,
  { name, holder }: CollectorLease,
  problem: string,
): Promise<void> {
  await sql`
    update siem_collectors set failing_since = coalesce(failing_since, now()), problem = ${problem}
    where name = ${name} and lease_holder = ${holder} and leased_until > now()
  `;
}

/** At a stop: others need not wait for the end of the lease. */
export async function releaseCollector(
  sql: Sql | TransactionSql,
  { name, holder }: CollectorLease,
): Promise<void> {
  await sql`
    update siem_collectors set lease_holder = null, leased_until = null where name = ${name} and lease_holder = ${holder}
  `;
}

/** Of a log: the segment that is written now, or was written last. */
export interface PlannedSegment {
  log: number;
  first: number;
  last: number;
}

export async function findSegment(
  sql: Sql | TransactionSql,
  log: number,
): Promise<PlannedSegment | undefined> {
  const [row] = await sql<{ first: string; last: string }[]>`
    select first_sequence as first, last_sequence as last from siem_segments where log = ${log}
  `;
  return row && { log, first: Number(row.first), last: Number(row.last) };
}

/** Before anything of it is written. @returns undefined if the lease has ended: nothing was stored. */
export async function planSegment(
  sql: Sql | TransactionSql,
  { name, holder }: CollectorLease,
  { log, first, last }: PlannedSegment,
): Promise<{ formerFirst: number | undefined } | undefined> {
  const [row] = await sql<{ former: string | null }[]>`
    with held as (
      select name from siem_collectors where name = ${name} and lease_holder = ${holder} and leased_until > now() for update
    )
    insert into siem_segments as stored (log, first_sequence, last_sequence)
      select ${log}, ${first}, ${last} from held
    on conflict (log) do update set first_sequence = excluded.first_sequence, last_sequence = excluded.last_sequence,
      former_first_sequence = case
        when stored.first_sequence < excluded.first_sequence then stored.first_sequence
        when stored.first_sequence = excluded.first_sequence then stored.former_first_sequence
      end
    returning former_first_sequence as former
  `;
  return row && { formerFirst: row.former === null ? undefined : Number(row.former) };
}
