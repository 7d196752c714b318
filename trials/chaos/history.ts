import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "#kit/database/postgres.ts";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import { auditDatabase } from "#tests/support/system/audit-logs.ts";
import type { System } from "#tests/support/system/system.ts";
import { missingOf } from "./rules.ts";

/** A refresh token, as its text says. */
export interface Leaf {
  sessionId: string;
  generation: number;
  /** The whole of what was signed: two tokens of one generation must agree in it. */
  claims: string;
}

export type CallKind =
  | "register"
  | "login"
  | "logout"
  | "refresh"
  | "account"
  | "profile"
  | "read"
  | "pay"
  | "forgot"
  | "reset"
  | "set up"
  | "enable"
  | "ask"
  | "approve"
  | "approved"
  | "verify"
  | "depart"
  | "return"
  | "exchange";

/** One call, as its client knows it. Times are of one monotonic clock: the client's. */
export interface Call {
  /** W3C trace id, of this call alone: its audit entries and what reached the upstream carry it, even if no answer came. */
  traceId: string;
  kind: CallKind;
  /** Names whose token it was, or whom it is about. */
  userId: string;
  /** Of the access token that was shown. */
  sessionId?: string;
  /** The refresh token that was shown. */
  presented?: Leaf;
  /** What was shown and may be used once: a link's token, codes, a challenge, a login at a provider, an approval without a key. */
  secrets?: readonly string[];
  /** What it writes: a payment's reference, the new first name. */
  value?: string;
  /** Of an approved payment: it may pass again with the same key. */
  idempotencyKey?: string;
  /** Its client knows that it must be refused. */
  isAttack?: boolean;
  startMs: number;
  endMs: number;
  /** Undefined: the client has no whole answer. */
  answer?: { status: number; code?: string; requestId: string };
  /** The refresh token of the answer. */
  given?: Leaf;
}

/** What an upstream was sent. */
export interface Received {
  /** By the clock of the calls. */
  atMs: number;
  traceId: string;
  method: string;
  userId: string;
  sessionId: string;
  role: string;
  reference?: string;
  idempotencyKey?: string;
  approvalId?: string;
  approvalDigest?: string;
}

/** What of an entry of the audit log the rules look at. */
export interface Entry {
  id: string;
  log: number;
  /** In its log. 0: it has none. */
  sequence: number;
  producerId: string;
  producerSequence: number;
  producerName: string;
  kind: string;
  callId: string;
  traceId: string;
  requestId: string;
  outcome: string;
  httpStatus: number;
}

export interface Approval {
  id: string;
  userId: string;
  digest: string;
  transaction: string;
}

/** One attempt to deliver an event, as the receiver saw it. */
export interface ReceivedEvent {
  id: string;
  log: number;
  sequence: number;
  subject: string;
  /** By the secret of the webhook, at the time of its receipt. */
  isSigned: boolean;
}

/** A webhook for events of every type. */
export interface Webhook {
  url: string;
  /** By log: its last entry when there was the webhook. It is owed the events after it. */
  after: Readonly<Record<number, number>>;
  /** In the order of their receipt, also what came again. */
  received: readonly ReceivedEvent[];
}

/** What there is to judge by: calls as the clients saw them, and at the end the upstream and the databases. */
export interface History {
  calls: readonly Call[];
  received: readonly Received[];
  entries: readonly Entry[];
  /** Ids of all events that services have written to their outboxes. */
  owedEvents: readonly string[];
  /** How many entries have a number, and the last. Of several logs the sums. */
  numbered: { count: number; last: number };
  /** Those that were given. */
  approvals: readonly Approval[];
  /** By user: recovery codes that were used up. */
  usedCodes: ReadonlyMap<string, number>;
  /** Keyed by user, at the end. */
  firstNames: ReadonlyMap<string, string>;
  /** By session that is over: why, as the database says. For whoever reads what broke a rule. */
  reasons: ReadonlyMap<string, string>;
  webhooks: readonly Webhook[];
}

const PATIENCE_MS = 300_000;
/** After its second failure an event waits for five minutes. */
const WEBHOOK_PATIENCE_MS = 600_000;

interface HistoricSystem extends Pick<System, "home" | "ports"> {
  /** Of all gateways, as text. */
  metrics(): Promise<string>;
}

interface Known extends Pick<History, "calls" | "received">, Partial<Pick<History, "webhooks">> {
  logs?: readonly number[];
}

/** What the upstream, the webhooks and the databases hold, once all that waits on disks and in outboxes is in the log and sent. */
export async function readHistory(
  system: HistoricSystem,
  { calls, received, webhooks = [], logs = [0] }: Known,
): Promise<History> {
  await untilDrained(system);
  await using identity = await databaseOfSystem(system, "identity");
  await using token = await databaseOfSystem(system, "token");
  const owedEvents = [...(await recordedEvents(identity.sql)), ...(await recordedEvents(token.sql))];
  const read = await Promise.all(logs.map((log) => readLog(system, log)));
  const entries = read.flatMap((log) => log.entries);
  await untilSent(webhooks, entries);
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
    webhooks,
    entries,
    owedEvents,
    numbered: read
      .map(({ numbered }) => numbered)
      .reduce((sum, each) => ({ count: sum.count + each.count, last: sum.last + each.last })),
    approvals,
    usedCodes: new Map(used.map((row) => [row.userId, row.used])),
    firstNames: new Map(users.map(({ id, name }) => [id, name])),
    reasons: new Map(ended.map(({ id, reason }) => [id, reason])),
  };
}

async function readLog(system: HistoricSystem, log: number): Promise<Pick<History, "entries" | "numbered">> {
  await using database = await databaseOfSystem(system, auditDatabase(log));
  const { sql } = database;
  // They are numbered a moment later. Counted first: the entries that are read then have those numbers.
  for (const endMs = performance.now() + PATIENCE_MS; ; await sleep(200)) {
    const [numbered] = await sql<{ count: number; last: number }[]>`
      select count(*)::int as count, max(sequence)::int as last from leaves`;
    const entries = await sql<Entry[]>`
      select id, ${log}::int as log, coalesce(sequence, 0)::int as sequence, producer_id as "producerId", producer_sequence::int as "producerSequence",
        producer_name as "producerName", kind, call_id as "callId", trace_id as "traceId",
        request_id as "requestId", outcome, http_status as "httpStatus"
      from log_entries left join leaves using (position)`;
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

/** Until each webhook was sent what the log has. What is missing in the end is for the rules. */
async function untilSent(webhooks: readonly Webhook[], entries: readonly Entry[]): Promise<void> {
  const endMs = performance.now() + WEBHOOK_PATIENCE_MS;
  while (webhooks.some((webhook) => missingOf(webhook, entries).length > 0) && performance.now() < endMs)
    await sleep(500);
}
