import type { Sql } from "#kit/database/postgres.ts";
import { columns, type EntryRow, fromRow, type StoredEntry } from "../entries/entry-store.ts";

/** @returns the database time. */
export async function upsertProducers(sql: Sql, producerIds: readonly string[]): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`
    with noted as (
      insert into producers (producer_id, last_seen_at)
      select id, now() from unnest(${producerIds as string[]}::uuid[]) as id
      order by id
      on conflict (producer_id) do update set last_seen_at = excluded.last_seen_at
    )
    select now() as now
  `;
  return row?.now ?? new Date(Number.NaN);
}

export interface AbandonedIntent extends StoredEntry {
  /** Two replicas stored intent and outcome at once. */
  hasOutcome: boolean;
}

/** Oldest first. */
export async function selectAbandonedIntents(
  sql: Sql,
  afterS: number,
  limit: number,
): Promise<AbandonedIntent[]> {
  const rows = await sql<(EntryRow & { has_outcome: boolean })[]>`
    select ${columns(sql)}, exists (
      select from log_entries as other
      where other.request_id = e.request_id and other.request_id <> '' and other.call_id = e.call_id
        and other.kind = 'outcome'
    ) as has_outcome
    from (
      select o.position, o.received_at from open_intents as o left join producers as p using (producer_id)
      where greatest(o.received_at, p.last_seen_at) < now() - make_interval(secs => ${afterS})
      order by o.position limit ${limit}
    ) as o
    join lateral (
      select * from log_entries as stored where stored.position = o.position and stored.received_at = o.received_at
    ) as e on true
    order by e.position
  `;
  return rows.map((row) => ({ ...fromRow(row), hasOutcome: row.has_outcome }));
}

export async function deleteOpenIntents(sql: Sql, callIds: readonly string[]): Promise<void> {
  if (callIds.length === 0) return;
  await sql`delete from open_intents where call_id = any(${callIds as string[]})`;
}

export async function deleteOldProducers(sql: Sql): Promise<void> {
  await sql`
    delete from producers as p where last_seen_at < now() - interval '1 day'
      and not exists (select from open_intents as o where o.producer_id = p.producer_id)
  `;
}
