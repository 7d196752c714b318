import { LOGIN_ACTIONS } from "#audit-client/stream/audit-actions.ts";
import type { Sql } from "#kit/database/postgres.ts";

/** Recorded by identity-service, with the reason. */
const REFUSAL = "user.login_failed";

/**
 * Counts up to `limit` further entries. Replicas take turns.
 * @returns how many entries were read; undefined if another replica is counting.
 */
export async function countNextEntries(sql: Sql, limit: number): Promise<number | undefined> {
  const [row] = await sql<{ read: number }[]>`
    with span as materialized (
      select p.sequence as after, greatest(p.sequence, least(p.sequence + ${limit}::integer,
        coalesce((select l.sequence from leaves as l order by l.sequence desc limit 1), 0))) as upto
      from login_count_progress as p for update of p skip locked
    ), counted as (
      select date_trunc('hour', e.occurred_at, 'UTC') as hour,
        case when e.action = ${REFUSAL} then 'refusal' when e.outcome = 'success' then 'login' else 'failure' end as kind,
        case when e.action = ${REFUSAL} then e.reason else '' end as reason,
        count(*) as count
      from span
      cross join lateral (
        select position, received_at from leaves
        where sequence > span.after and sequence <= span.upto order by sequence limit ${limit}
      ) as l
      cross join lateral (
        select * from log_entries as stored
        where stored.position = l.position and stored.received_at = l.received_at limit 1
      ) as e
      where e.kind = 'event' and e.action = ${REFUSAL}
        or e.kind = 'outcome' and e.action = any(${[...LOGIN_ACTIONS]})
          and (e.outcome = 'failure' or e.outcome = 'success' and e.actor_session_id <> '')
      group by 1, 2, 3
    ), added as (
      insert into login_counts as known (hour, kind, reason, count)
      select hour, kind, reason, count from counted order by 1, 2, 3
      on conflict (hour, kind, reason) do update set count = known.count + excluded.count
    )
    update login_count_progress as p set sequence = span.upto from span
    returning (span.upto - span.after)::int as read
  `;
  return row?.read;
}

export async function deleteOldLoginCounts(sql: Sql, keptDays: number): Promise<void> {
  await sql`delete from login_counts where hour < now() - make_interval(days => ${keptDays})`;
}

export interface Span {
  interval: "hour" | "day";
  /** Inclusive. */
  from: Date;
  /** Exclusive. */
  to: Date;
}

export interface LoginBucket {
  start: Date;
  logins: number;
  failures: number;
}

/** Without empty buckets; days are those of UTC. */
export async function selectLoginBuckets(sql: Sql, { interval, from, to }: Span): Promise<LoginBucket[]> {
  const rows = await sql<{ start: Date; logins: string; failures: string }[]>`
    select date_trunc(${interval}, hour, 'UTC') as start,
      coalesce(sum(count) filter (where kind = 'login'), 0) as logins,
      coalesce(sum(count) filter (where kind = 'failure'), 0) as failures
    from login_counts where hour >= ${from} and hour < ${to} and kind <> 'refusal'
    group by 1 order by 1
  `;
  return rows.map(({ start, logins, failures }) => ({
    start,
    logins: Number(logins),
    failures: Number(failures),
  }));
}

export interface RefusalCount {
  reason: string;
  count: number;
}

/** Most frequent first. */
export async function selectRefusals(sql: Sql, { from, to }: Span, limit: number): Promise<RefusalCount[]> {
  const rows = await sql<{ reason: string; count: string }[]>`
    select reason, sum(count) as count from login_counts
    where hour >= ${from} and hour < ${to} and kind = 'refusal'
    group by reason order by 2 desc, reason limit ${limit}
  `;
  return rows.map(({ reason, count }) => ({ reason, count: Number(count) }));
}

export interface OpenIntents {
  /** Returns at most `limit`. */
  count: number;
  oldest: Date | undefined;
}

export async function selectOpenIntents(sql: Sql, olderThanS: number, limit: number): Promise<OpenIntents> {
  const [row] = await sql<{ count: number; oldest: Date | null }[]>`
    select count(*)::int as count, min(received_at) as oldest from (
      select received_at from open_intents where received_at < now() - make_interval(secs => ${olderThanS})
      order by received_at limit ${limit}
    ) as old
  `;
  return { count: row?.count ?? 0, oldest: row?.oldest ?? undefined };
}

/** How far the log is counted, and numbered. */
export async function selectCountProgress(sql: Sql): Promise<{ counted: number; size: number }> {
  const [row] = await sql<{ counted: string; size: string }[]>`
    select sequence as counted,
      coalesce((select l.sequence from leaves as l order by l.sequence desc limit 1), 0) as size
    from login_count_progress
  `;
  return { counted: Number(row?.counted ?? 0), size: Number(row?.size ?? 0) };
}
