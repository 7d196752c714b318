import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "#kit/database/postgres.ts";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import type { System } from "#tests/support/system/system.ts";
import type { Approval, Entry, History } from "./history.ts";

const PATIENCE_MS = 300_000;

interface HistoricSystem extends Pick<System, "home" | "ports"> {
  /** Of all gateways, as text. */
  metrics(): Promise<string>;
}

/** What the upstream and the databases hold, once all that waits on disks and in outboxes is in the log. */
export async function readHistory(
  system: HistoricSystem,
  { calls, received }: Pick<History, "calls" | "received">,
): Promise<History> {
  await untilDrained(system);
  await using identity = await databaseOfSystem(system, "identity");
  await using token = await databaseOfSystem(system, "token");
  await using audit = await databaseOfSystem(system, "audit");
  const owedEvents = [...(await recordedEvents(identity.sql)), ...(await recordedEvents(token.sql))];
  const { entries, numbered } = await readLog(audit.sql);
  const approvals = await identity.sql<Approval[]>`
    select id, user_id as "userId", encode(digest, 'hex') as digest, transaction_text as transaction
    from approvals where given_at is not null`;
  const used = await identity.sql<{ userId: string; used: number }[]>`
    select users.id as "userId", 10 - count(code)::int as used
    from users left join recovery_codes as code on code.user_id = users.id
    where users.id in (select user_id from recovery_codes union select user_id from approvals)
    group by users.id`;
  const users = await identity.sql<{ id: string; name: string }[]>`select id, first_name as name from users`;
  const ended = await token.sql<{ id: string; reason: string }[]>`
    select id, revoked_reason || ' ' || revoked_at as reason from sessions where revoked_at is not null`;
  return {
    calls,
    received,
    entries,
    owedEvents,
    numbered,
    approvals,
    usedCodes: new Map(used.map((row) => [row.userId, row.used])),
    firstNames: new Map(users.map(({ id, name }) => [id, name])),
    reasons: new Map(ended.map(({ id, reason }) => [id, reason])),
  };
}

async function readLog(sql: Sql): Promise<Pick<History, "entries" | "numbered">> {
  // They are numbered a moment later.
  for (const endMs = performance.now() + PATIENCE_MS; ; await sleep(200)) {
    const entries = await sql<Entry[]>`
      select id, producer_id as "producerId", producer_sequence::int as "producerSequence",
        producer_name as "producerName", kind, call_id as "callId", trace_id as "traceId",
        request_id as "requestId", outcome, http_status as "httpStatus"
      from log_entries`;
    const [numbered] = await sql<{ count: number; last: number }[]>`
      select count(*)::int as count, max(sequence)::int as last from leaves`;
    if (numbered !== undefined && (numbered.count === entries.length || performance.now() > endMs))
      return { entries, numbered };
  }
}

/** The events of a service's outbox, once all are in the log. An unacknowledged one is resent after its lease. */
async function recordedEvents(sql: Sql): Promise<string[]> {
  for (const endMs = performance.now() + PATIENCE_MS; ; await sleep(200)) {
    const events = await sql<{ id: string; isRecorded: boolean }[]>`
      select id, recorded_at is not null as "isRecorded" from security_events`;
    if (events.every(({ isRecorded }) => isRecorded)) return events.map(({ id }) => id);
    if (performance.now() > endMs) throw new Error("an outbox is not empty");
  }
}

/** Until audit-service has all that waits on disks and in memory. */
async function untilDrained(system: Pick<HistoricSystem, "metrics">): Promise<void> {
  const waiting = /^gatehouse_audit_(?:queued_entries|spool_bytes)\{[^}]*\} (?!0$)/m;
  for (
    const endMs = performance.now() + PATIENCE_MS;
    waiting.test(await system.metrics());
    await sleep(100)
  ) {
    if (performance.now() > endMs) throw new Error(`not drained:\n${await system.metrics()}`);
  }
}
