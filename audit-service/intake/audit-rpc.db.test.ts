import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type AuditRecorderOptions, createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { AuditSpool } from "#audit-client/spool/audit-spool.ts";
import type { AuditOutcome } from "#audit-client/stream/audit-entry.ts";
import { sampleEvent } from "#audit-client/stream/entry.fixture.ts";
import { newProducerId } from "#audit-client/stream/producer-id.ts";
import { createReadingRecorder } from "#audit-client/stream/record-reading.ts";
import { toProto } from "#audit-client/stream/to-proto.ts";
import { certificateFiles, ensureCertificates, type Identity } from "#deploy/local/certificates.ts";
import { Secret } from "#kit/config/config.ts";
import { connectPostgres, type Sql, transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient, openBidiStream } from "#kit/rpc/rpc-client.ts";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import {
  AuditQueryServiceClient,
  AuditQueryServiceService,
  type ExportEntriesResponse,
  SearchEntriesRequest,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import {
  AuditServiceClient,
  AuditServiceService,
  type RecordRequest,
} from "#proto/gatehouse/audit/v1/audit_service.ts";
import { Entry as WireEntry } from "#proto/gatehouse/audit/v1/entry.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { readableLog, testSequencer } from "#tests/support/system/audit-sequencer.ts";
import { loggedEntry, sampleEntry, store } from "../entries/entry.fixture.ts";
import type { Entry } from "../entries/entry.ts";
import { toWireEntry } from "../entries/entry-rpc.ts";
import { selectEntriesById } from "../entries/entry-store.ts";
import { AUDIT_QUERY_CALLERS, createAuditQueryRpc } from "../query/audit-query-rpc.ts";
import { createFollowing } from "../query/follow-entries.ts";
import { getEntry } from "../query/get-entry.ts";
import { searchEntries } from "../query/search-entries.ts";
import { summarizeLogs } from "../query/summarize-log.ts";
import { AUDIT_CALLERS, createAuditRpc, createProducerPresence } from "./audit-rpc.ts";
import { EntryRecorder } from "./record-entries.ts";
import { createOwnEventRecorder } from "./record-own-events.ts";

const logger = pino({ level: "silent" });

let directory: string;
const certificates = new Map<Identity, ProcessCertificate>();
let database: TestDatabase;
let link: DatabaseLink;
let sql: Sql;
let server: RpcServer;
let port: number;
const presence = createProducerPresence();
const cleanUps: (() => unknown)[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "gatehouse-audit-test-"));
  await ensureCertificates(directory, new Date(), "tester");
});

afterAll(async () => {
  for (const certificate of certificates.values()) certificate.close();
  await rm(directory, { recursive: true, force: true });
});

beforeEach(async () => {
  database = await createTestDatabase("audit-service");
  link = await linkTo(database.url);
  const config = {
    DATABASE_URL: link.url,
    DATABASE_PASSWORD_FILE: new Secret(database.password),
    DATABASE_POOL_SIZE: 4,
  };
  sql = connectPostgres(config, "audit-service", logger);
  await startServer("127.0.0.1:0");
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  await server.close(200);
  await sql.end({ timeout: 0 });
  link.close();
  await database.drop();
});

test("an acknowledged entry is in the database with the caller's name from its certificate", async () => {
  const recorder = recorderOf("gateway").next();

  await recorder.record(outcome({ action: "auth.login", latencyUs: 1_500.4 }), Date.now() + 60_000);

  const rows = await database.ownerSql`select * from log_entries`;
  expect(rows).toHaveLength(1);
  expect(rows[0]).toMatchObject({
    producer_name: "gateway",
    producer_sequence: "1",
    kind: "outcome",
    action: "auth.login",
    outcome: "success",
    http_status: 201,
    latency_us: "1500",
  });
});

test("concurrent entries of several producers are stored once and in each producer's order", async () => {
  const recorders = [recorderOf("gateway"), recorderOf("identity-service"), recorderOf("token-service")];

  await Promise.all(
    recorders.flatMap((recorder) =>
      Array.from({ length: 1_000 }, () => recorder.next().record(outcome(), Date.now() + 60_000)),
    ),
  );

  const rows = await database.ownerSql<{ producer_id: string; producer_sequence: string }[]>`
    select producer_id, producer_sequence from log_entries order by position`;
  expect(rows).toHaveLength(3_000);
  for (const producerRows of Map.groupBy(rows, (row) => row.producer_id).values()) {
    expect(producerRows.map((row) => Number(row.producer_sequence))).toEqual(
      Array.from({ length: 1_000 }, (_, index) => index + 1),
    );
  }
});

test("repeated entries are acknowledged again and stored once", async () => {
  const producerId = newProducerId(0);
  for (let round = 0; round < 2; round += 1) {
    const stream = streamOf("gateway");
    stream.send({ producerId, entries: wireEntries(1, 3) });
    expect(await stream.acknowledged()).toBe(3);
    stream.send({ producerId, entries: wireEntries(4, 5) });
    expect(await stream.acknowledged()).toBe(5);
  }
  expect(await storedCount()).toBe(5);
});

test("there is no acknowledgement before the commit", async () => {
  const stream = streamOf("gateway");
  let isAcknowledged = false;
  let acknowledged: Promise<number> | undefined;
  await transaction(database.ownerSql, async (tx) => {
    await tx`lock table log_entries in access exclusive mode`;
    stream.send({ producerId: newProducerId(0), entries: wireEntries(1, 1) });
    acknowledged = stream.acknowledged().then((sequence) => {
      isAcknowledged = true;
      return sequence;
    });
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBeGreaterThan(0);
    expect(isAcknowledged).toBe(false);
  });
  expect(await acknowledged).toBe(1);
  expect(await storedCount()).toBe(1);
});

test("without the database the stream ends with service_unavailable, after earlier acknowledgements", async () => {
  const producerId = newProducerId(0);
  const stream = streamOf("gateway");
  stream.send({ producerId, entries: wireEntries(1, 1) });
  expect(await stream.acknowledged()).toBe(1);

  link.cut();
  stream.send({ producerId, entries: wireEntries(2, 2) });

  await expect(stream.acknowledged()).rejects.toMatchObject({ code: "service_unavailable" });
  expect(await storedCount()).toBe(1);
});

test("nothing is acknowledged without the database, and everything once it is back", async () => {
  const recorder = recorderOf("gateway").next();
  await recorder.record(outcome(), Date.now() + 60_000);
  link.cut();

  const refused = await Promise.allSettled(
    Array.from({ length: 50 }, () => recorder.record(outcome(), Date.now() + 300)),
  );
  expect(new Set(refused.map(codeOf))).toEqual(new Set(["audit_unavailable"]));

  await link.restore();
  await recorder.record(outcome(), Date.now() + 60_000);
  expect(await storedCount()).toBe(52);
});

test("repeated restarts of audit-service neither lose nor duplicate entries", async () => {
  const recorder = recorderOf("gateway").next();
  const records: Promise<void>[] = [];
  const restarts = (async () => {
    for (let round = 0; round < 5; round += 1) {
      await sleep(60);
      await server.close(0);
      await startServer(`127.0.0.1:${port}`);
    }
  })();
  for (let index = 0; index < 2_000; index += 1) {
    records.push(recorder.record(outcome({ resource: String(index) }), Date.now() + 60_000));
    if (index % 5 === 0) await sleep(1);
  }
  await restarts;
  await Promise.all(records);

  const rows = await database.ownerSql<{ producer_sequence: string; resource: string }[]>`
    select producer_sequence, resource from log_entries order by producer_sequence`;
  expect(rows.map((row) => row.resource)).toEqual(Array.from({ length: 2_000 }, (_, index) => String(index)));
  expect(rows.map((row) => Number(row.producer_sequence))).toEqual(
    Array.from({ length: 2_000 }, (_, index) => index + 1),
  );
});

test("an unlisted caller may neither record nor search", async () => {
  const stream = streamOf("payments-service");
  stream.send({ producerId: newProducerId(0), entries: wireEntries(1, 1) });
  await expect(stream.acknowledged()).rejects.toMatchObject({ code: "caller_not_allowed" });
  await expect(search("token-service", { limit: 10 })).rejects.toMatchObject({ code: "caller_not_allowed" });
  expect(await storedCount()).toBe(0);
});

test("a message out of order is refused, after the acknowledgement of earlier ones", async () => {
  const producerId = newProducerId(0);
  const stream = streamOf("gateway");
  stream.send({ producerId, entries: wireEntries(1, 2) });
  stream.send({ producerId, entries: wireEntries(4, 4) });
  expect(await stream.acknowledged()).toBe(2);
  await expect(stream.acknowledged()).rejects.toMatchObject({ code: "validation_failed" });
  expect(await storedCount()).toBe(2);
});

test("a producer id that is not a UUID is refused with the field's name", async () => {
  const stream = streamOf("gateway");
  stream.send({ producerId: "me", entries: [] });
  await expect(stream.acknowledged()).rejects.toMatchObject({
    code: "validation_failed",
    fields: [{ field: "producerId" }],
  });
});

test("a producer's entries are in the log that its id names, and a log that is away or unknown stops no other", async () => {
  const log3 = await createTestDatabase("audit-service");
  cleanUps.push(() => log3.drop());
  await server.close(0);
  await startServer(`127.0.0.1:${port}`, log3.sql);
  const send = async (log: number, first: number, last: number, producerId = newProducerId(log)) => {
    const stream = streamOf("gateway");
    stream.send({ producerId, entries: wireEntries(first, last) });
    return stream.acknowledged();
  };
  const stored = async () =>
    Promise.all(
      [database, log3].map(async ({ ownerSql }) => (await ownerSql`select from log_entries`).length),
    );
  const producerId = newProducerId(3);
  expect(await send(3, 1, 5, producerId)).toBe(5);
  expect(await send(0, 1, 2)).toBe(2);
  expect(await stored()).toEqual([2, 5]);
  // Sent again, it goes where it was.
  expect(await send(3, 1, 6, producerId)).toBe(6);
  expect(await stored()).toEqual([2, 6]);
  await expect(send(4, 1, 1)).rejects.toMatchObject({ code: "service_unavailable" });
  link.cut();
  await expect(send(0, 1, 1)).rejects.toMatchObject({ code: "service_unavailable" });
  expect(await send(3, 1, 1)).toBe(1);
});

test("a message without entries is acknowledged", async () => {
  const stream = streamOf("gateway");
  stream.send({ producerId: newProducerId(0), entries: [] });
  expect(await stream.acknowledged()).toBe(0);
});

test("a producer is present while it has a stream, even an idle one", async () => {
  const producerId = newProducerId(0);
  const stream = streamOf("gateway");
  stream.send({ producerId, entries: [] });
  await stream.acknowledged();
  await sleep(200);
  expect(presence.present()).toContain(producerId);
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  await expect.poll(() => presence.present()).not.toContain(producerId);
});

test("an entry of invalid values is stored, and so are the entries beside it", async () => {
  const producerId = newProducerId(0);
  const nasty = "\u0000\u001b[31m\ud800".repeat(8_000);
  const entry = toWireEntry(
    placed({
      id: "no uuid",
      callId: nasty,
      userAgent: nasty,
      actor: { userId: nasty, role: nasty, sessionId: nasty, claimedEmail: nasty },
    }),
  );
  const stream = streamOf("gateway");
  stream.send({
    producerId,
    entries: [
      { sequence: 1, entry: { ...entry, occurredAt: undefined, kind: 99 as 1, outcome: 77 as 1 } },
      { sequence: 2, entry: undefined },
      { sequence: 3, entry: toWireEntry(placed()) },
    ],
  });
  expect(await stream.acknowledged()).toBe(3);
  const rows = await database.ownerSql`select kind, outcome, action from log_entries order by position`;
  expect(rows).toMatchObject([
    { kind: "unspecified", outcome: "unknown", action: "payments.create" },
    { kind: "unspecified", outcome: "", action: "" },
    { kind: "outcome", outcome: "failure", action: "payments.create" },
  ]);
});

test("an event repeated by another process is acknowledged and stored once", async () => {
  const event = sampleEvent();
  for (let life = 0; life < 2; life += 1) {
    const recorder = recorderOf("token-service");
    await Promise.all([
      recorder.recordEvent(event, Date.now() + 60_000),
      recorder.next().record(outcome(), Date.now() + 60_000),
      recorder.recordEvent(event, Date.now() + 60_000),
    ]);
  }
  const rows = await database.ownerSql`select kind, action from log_entries order by kind`;
  expect(rows.map(({ kind }) => kind)).toEqual(["event", "outcome", "outcome"]);
});

test("a group of repeated, changed and new events is stored in order, each once", async () => {
  const events = Array.from({ length: 150 }, (_, index) => toWireEntry(placed({ resource: `old ${index}` })));
  const send = async (entries: readonly WireEntry[]) => {
    const stream = streamOf("identity-service");
    const producerId = newProducerId(0);
    for (const [index, entry] of entries.entries())
      stream.send({ producerId, entries: [{ sequence: index + 1, entry }] });
    for (let last = 0; last < entries.length; ) last = Number(await stream.acknowledged());
  };
  await send(events);
  await send(
    events.flatMap((event, index) => [
      event,
      ...(index % 50 === 0 ? [{ ...event, resource: `changed ${index}` }] : []),
      toWireEntry(placed({ resource: `new ${index}` })),
    ]),
  );

  const rows = await database.ownerSql`select resource, id from log_entries order by position`;
  const expected = events.flatMap((_, index) => [
    ...(index % 50 === 0 ? [`changed ${index}`] : []),
    `new ${index}`,
  ]);
  expect(rows.slice(0, 150).map(({ id }) => id)).toEqual(events.map(({ id }) => id));
  expect(rows.slice(150).map(({ resource }) => resource)).toEqual(expected);
});

test("an entry with a taken id is stored and does not block others", async () => {
  const id = crypto.randomUUID();
  const send = async (identity: Identity, changes: Partial<Entry>) => {
    const stream = streamOf(identity);
    const entry = toWireEntry(placed({ id, ...changes }));
    stream.send({ producerId: newProducerId(0), entries: [{ sequence: 1, entry }] });
    return stream.acknowledged();
  };
  await send("gateway", { resource: "first" });
  await Promise.all([send("identity-service", { resource: "second" }), send("token-service", { id: "" })]);

  const rows = await database.ownerSql`select id, resource from log_entries order by resource`;
  expect(rows.map(({ resource }) => resource)).toEqual(["first", "pay_1", "second"]);
  expect(rows[0]?.id).toBe(id);
});

test("200 entries of maximum length, with three bytes per character, fit into one message", async () => {
  const recorder = recorderOf("gateway").next();
  const long = "€".repeat(5_000);
  const entry = outcome({
    callId: long,
    actor: { userId: long, role: long, sessionId: long, claimedEmail: long },
    clientIp: long,
    userAgent: long,
    method: long,
    route: long,
    resource: long,
    action: long,
    requestId: long,
    traceId: long,
    errorCode: long,
    latencyUs: Number.MAX_SAFE_INTEGER,
  });
  await Promise.all(Array.from({ length: 400 }, () => recorder.record(entry, Date.now() + 60_000)));
  expect(await storedCount()).toBe(400);
  // The service does not cut again what the recorder has cut: both end in one ellipsis.
  const [row] = await database.ownerSql`
    select e.user_agent, c.address as claimed_email from log_entries as e join claimed_emails as c using (position) limit 1`;
  expect(row).toEqual({ user_agent: `${"€".repeat(511)}…`, claimed_email: `${"€".repeat(253)}…` });
});

test("search returns entries as they were recorded", async () => {
  const recorder = recorderOf("gateway").next();
  await recorder.record(outcome({ action: "auth.login" }), Date.now() + 60_000);
  await recorder.record(outcome({ action: "payments.create" }), Date.now() + 60_000);

  const page = await search("operator", { action: "payments.create", limit: 10 });

  expect(page.nextCursor).toBe("");
  expect(page.entries).toHaveLength(1);
  expect(page.entries[0]).toMatchObject({
    action: "payments.create",
    route: "/payments",
    httpStatus: 201,
    latencyUs: 1_500,
    actor: { role: "USER" },
  });
});

test("identity-service erases a claimed address; the gateway may not", async () => {
  const recorder = recorderOf("gateway").next();
  const claim = { claimedEmail: "Ada@Example.com" }; // as it was typed
  await recorder.record(outcome({ actor: claim }), Date.now() + 60_000);
  await recorder.record(outcome({ actor: { claimedEmail: "bob@example.com" } }), Date.now() + 60_000);

  await expect(erase("gateway", "ada@example.com")).rejects.toMatchObject({ code: "caller_not_allowed" });
  await expect(erase("identity-service", "")).rejects.toMatchObject({ code: "validation_failed" });
  expect(await erase("identity-service", "ada@example.com")).toEqual({ erasedEntries: 1 });
  expect(await erase("operator", "ada@example.com")).toEqual({ erasedEntries: 0 });
  const page = await search("gateway", { limit: 10, action: "payments.create" });
  expect(page.entries.map(({ actor }) => actor?.claimedEmail)).toEqual(["bob@example.com", ""]);
  expect(page.entries.every(({ actor }) => actor?.claimedEmailHash.length === 64)).toBe(true);
});

test("an erasure that one of several logs did not answer is recorded, and is to be repeated", async () => {
  const log3 = await createTestDatabase("audit-service");
  cleanUps.push(() => log3.drop());
  await server.close(200);
  await startServer(`127.0.0.1:${port}`, log3.sql);
  const claimants = async ({ ownerSql }: TestDatabase) =>
    (await ownerSql<{ address: string }[]>`select address from claimed_emails`).map(({ address }) => address);
  for (const log of [database, log3]) {
    await log.ownerSql`
      insert into claimed_emails (position, received_at, salt, address)
      select position, now(), ${Buffer.alloc(32)}, address
      from unnest(array['Ada@example.com', 'bob@example.com']) with ordinality as claims (address, position)`;
  }
  const eraseWhileAway = async (log: TestDatabase, email: string) =>
    await transaction(log.ownerSql, async (tx) => {
      await tx`lock table claimed_emails in access exclusive mode`;
      return erase("operator", email).catch((error: unknown) => error);
    });
  const records = async () => {
    const rows = await database.ownerSql<{ reason: string }[]>`
      select reason from log_entries where action = 'audit.address_erased' order by position`;
    return rows.map(({ reason }) => reason);
  };

  expect(await eraseWhileAway(log3, "ada@example.com")).toMatchObject({
    code: "service_unavailable",
    message: expect.stringMatching(/log 3 .*repeat/),
  });
  const first = "erasedEntries=1 unanswered=3";
  expect([await records(), await claimants(database)]).toEqual([[first], ["bob@example.com"]]);
  await erase("operator", "ada@example.com");
  expect([(await records()).length, await claimants(log3)]).toEqual([2, ["bob@example.com"]]);

  // Log 0 takes the record: without it nothing is erased.
  expect(await eraseWhileAway(database, "bob@example.com")).toMatchObject({ code: "service_unavailable" });
  expect([(await records()).length, await claimants(log3)]).toEqual([2, ["bob@example.com"]]);
});

test("an erasure that takes its time is recorded with what it has erased", async () => {
  await database.ownerSql.unsafe(`
    insert into claimed_emails (position, received_at, salt, address) values (1, now(), decode(repeat('00', 32), 'hex'), 'ada@example.com');
    create function rest() returns trigger language plpgsql as 'begin perform pg_sleep(1.3); return null; end';
    create trigger rest after delete on claimed_emails for each statement execute function rest()`);
  expect(await erase("operator", "ada@example.com")).toEqual({ erasedEntries: 1 });
  const records =
    await database.ownerSql`select reason from log_entries where action = 'audit.address_erased'`;
  expect([...records]).toEqual([{ reason: "erasedEntries=1" }]);
});

test("each read by an operator is in the log with its filter; the gateway records its own callers", async () => {
  const recorder = recorderOf("gateway").next();
  await recorder.record(outcome(), Date.now() + 60_000);
  await search("gateway", { limit: 10 });
  await search("auditor", { limit: 10, actorUserId: "u1", from: new Date(0) });
  await exported("operator").catch(() => undefined); // nothing is numbered yet
  expect(await erase("operator", "ada@example.com")).toEqual({ erasedEntries: 0 });
  const rows = await database.ownerSql`
    select action, actor_user_id, actor_role, reason, producer_name, outcome from log_entries
    where producer_name = 'audit-service' order by position`;
  const auditor = { actor_user_id: "auditor:tester", actor_role: "AUDITOR" };
  const operator = { actor_user_id: "operator:tester", actor_role: "OPERATOR" };
  expect([...rows]).toMatchObject([
    { ...auditor, action: "audit.searched", reason: "actor=u1 from=1970-01-01T00:00:00.000Z limit=10" },
    { ...operator, action: "audit.exported" },
    { ...operator, action: "audit.address_erased", reason: "erasedEntries=0" },
  ]);
  expect(JSON.stringify(rows)).not.toContain("ada@");
});

test("an auditor may only read", async () => {
  expect(AUDIT_QUERY_CALLERS).toEqual({
    searchEntries: ["gateway", "operator", "auditor"],
    followEntries: ["gateway", "operator", "auditor", "event-service"],
    summarizeLogins: ["gateway", "operator", "auditor"],
    getEntry: ["gateway", "operator", "auditor"],
    getCheckpoint: ["gateway", "operator", "auditor"],
    proveInclusion: ["gateway", "operator", "auditor"],
    proveConsistency: ["gateway", "operator", "auditor"],
    exportEntries: ["gateway", "operator", "auditor", "event-service"],
  });
  expect(AUDIT_CALLERS).toEqual({
    record: ["gateway", "identity-service", "token-service", "event-service"],
    eraseClaimedEmail: ["identity-service", "operator"],
  });
  await expect(erase("auditor", "ada@example.com")).rejects.toMatchObject({ code: "caller_not_allowed" });
});

test("an export is streamed line by line, ends with its checkpoint, and is refused to token-service", async () => {
  const recorder = recorderOf("gateway").next();
  await Promise.all(Array.from({ length: 600 }, () => recorder.record(outcome(), Date.now() + 60_000)));
  const sequencer = testSequencer(database);
  cleanUps.push(() => sequencer.close());
  await sequencer.catchUp();
  const lines = await exported("operator");
  expect(lines.map((line) => line?.$case)).toEqual(["log", ...Array(600).fill("entry"), "checkpoint"]);
  await expect(exported("token-service")).rejects.toMatchObject({ code: "caller_not_allowed" });
});

test("close sends queued entries", async () => {
  const recorder = recorderOf("gateway");
  for (let index = 0; index < 500; index += 1) recorder.next().enqueue(outcome());
  await recorder.close(2_000);
  expect(await storedCount()).toBe(500);
});

test("close also sends files of former processes if audit-service is back in time", async () => {
  const spoolDirectory = join(directory, randomUUID());
  const producerId = newProducerId(0);
  const spoolOf = () =>
    AuditSpool.open({
      directory: spoolDirectory,
      maxBytes: 1e8,
      producerIds: [producerId],
      logger,
      metrics: createMetrics("gateway"),
    });
  const former = await spoolOf();
  const wire = toProto(outcome(), { id: randomUUID(), occurredAt: new Date() });
  await former.spools.get(producerId)?.append([{ sequence: 1, entry: WireEntry.encode(wire).finish() }]);
  await former.close();
  await server.close(0);
  const recorder = createAuditRecorder({
    address: `127.0.0.1:${port}`,
    certificate: certificateOf("gateway"),
    logger,
    metrics: createMetrics("gateway"),
    spool: await spoolOf(),
  });
  const closed = recorder.close(20_000);
  await startServer(`127.0.0.1:${port}`);
  await closed;
  expect(await storedCount()).toBe(1);
  expect(await readdir(spoolDirectory)).toEqual([]);
});

function entryRecorder(own: Sql): EntryRecorder {
  return new EntryRecorder({
    insertEntries: (entries) => store(own, entries),
    selectEntriesById: (ids) => selectEntriesById(own, ids),
    logger,
  });
}

/** @param log3 Database of a log of that number. */
async function startServer(address: string, log3?: Sql): Promise<void> {
  server = new RpcServer({
    address,
    certificate: certificateOf("audit-service"),
    logger,
    metrics: createMetrics("audit-service"),
    maxReceiveBytes: 1024 * 1024,
  });
  const recorder = entryRecorder(sql);
  const logs = [readableLog(sql)] as const;
  const further =
    log3 === undefined ? [] : [{ number: 3, intake: log3, recorder: entryRecorder(log3), presence }];
  const own = createOwnEventRecorder({ recorder, producerId: randomUUID(), now: () => new Date() });
  const recordReading = createReadingRecorder(own, () => new Date());
  server.add(
    AuditServiceService,
    AUDIT_CALLERS,
    createAuditRpc({
      logs: [{ number: 0, intake: sql, recorder, presence }, ...further],
      recordReading,
      now: () => new Date(),
    }),
  );
  server.add(
    AuditQueryServiceService,
    AUDIT_QUERY_CALLERS,
    createAuditQueryRpc({
      searchEntries: (query) => searchEntries({ logs, cursorKey: Buffer.alloc(32) }, query),
      getEntry: (wanted) => getEntry(logs, wanted),
      followEntries: createFollowing(logs),
      summarizeLogs: (span) => summarizeLogs(logs, span),
      logs,
      recordReading,
      monotonicMs: () => performance.now(),
    }),
  );
  port = await server.listen();
}

function certificateOf(identity: Identity): ProcessCertificate {
  const known = certificates.get(identity);
  if (known !== undefined) return known;
  const files = certificateFiles(directory, identity);
  const certificate = new ProcessCertificate({
    certFile: files.certificate,
    keyFile: files.key,
    caFile: files.authority,
  });
  certificates.set(identity, certificate);
  return certificate;
}

function recorderOf(identity: Identity, limits: Partial<AuditRecorderOptions> = {}) {
  const recorder = createAuditRecorder({
    address: `127.0.0.1:${port}`,
    certificate: certificateOf(identity),
    logger,
    metrics: createMetrics(identity),
    ...limits,
  });
  cleanUps.push(() => recorder.close(0));
  return recorder;
}

/** A stream driven by hand. */
function streamOf(identity: Identity) {
  const client = createRpcClient(AuditServiceClient, {
    address: `127.0.0.1:${port}`,
    service: "audit-service",
    certificate: certificateOf(identity),
  });
  cleanUps.push(() => client.close());
  const call = openBidiStream(client, client.record, newCallContext({ budgetMs: 60_000 }));
  cleanUps.push(() => call.cancel());
  const events: (number | Error)[] = [];
  let wake: () => void = () => undefined;
  const push = (event: number | Error) => {
    events.push(event);
    wake();
  };
  call.on("data", ({ acknowledgedSequence }) => push(acknowledgedSequence));
  call.on("error", (error) => push(fromRpcError(error)));
  return {
    send: (request: RecordRequest) => call.write(request),
    async acknowledged(): Promise<number> {
      while (events.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const event = events.shift();
      if (typeof event === "number") return event;
      throw event;
    },
  };
}

async function search(identity: Identity, request: Partial<SearchEntriesRequest>) {
  const client = createRpcClient(AuditQueryServiceClient, {
    address: `127.0.0.1:${port}`,
    service: "audit-service",
    certificate: certificateOf(identity),
  });
  cleanUps.push(() => client.close());
  const empty = SearchEntriesRequest.decode(new Uint8Array());
  return callUnary(
    client,
    client.searchEntries,
    { ...empty, ...request },
    newCallContext({ budgetMs: 60_000 }),
  );
}

async function erase(identity: Identity, email: string) {
  const client = createRpcClient(AuditServiceClient, {
    address: `127.0.0.1:${port}`,
    service: "audit-service",
    certificate: certificateOf(identity),
  });
  cleanUps.push(() => client.close());
  return callUnary(client, client.eraseClaimedEmail, { email }, newCallContext({ budgetMs: 60_000 }));
}

async function exported(identity: Identity) {
  const client = createRpcClient(AuditQueryServiceClient, {
    address: `127.0.0.1:${port}`,
    service: "audit-service",
    certificate: certificateOf(identity),
  });
  cleanUps.push(() => client.close());
  const stream = client.exportEntries({ firstSequence: 0, lastSequence: 0, log: 0 });
  try {
    return (await Array.fromAsync(stream as AsyncIterable<ExportEntriesResponse>)).map(({ line }) => line);
  } catch (error) {
    throw fromRpcError(error as Parameters<typeof fromRpcError>[0]);
  }
}

function placed(changes: Parameters<typeof loggedEntry>[0] = {}) {
  return { ...loggedEntry(changes), log: 0 };
}

function outcome(changes: Partial<AuditOutcome> = {}): AuditOutcome {
  const { actor, callId, clientIp, userAgent, method, route, resource, action, requestId, traceId } =
    sampleEntry();
  return {
    kind: "outcome",
    outcome: "success",
    httpStatus: 201,
    latencyUs: 1_500,
    actor,
    callId,
    clientIp,
    userAgent,
    method,
    route,
    resource,
    action,
    requestId,
    traceId,
    ...changes,
  };
}

function wireEntries(from: number, to: number) {
  return Array.from({ length: to - from + 1 }, (_, index) => ({
    sequence: from + index,
    entry: toWireEntry(placed()),
  }));
}

async function storedCount(): Promise<number> {
  const [row] = await database.ownerSql<{ count: number }[]>`select count(*)::int as count from log_entries`;
  return row?.count ?? 0;
}

function codeOf(result: PromiseSettledResult<unknown>): unknown {
  return result.status === "rejected" ? result.reason.code : "fulfilled";
}

interface DatabaseLink {
  url: string;
  /** The database is away: open connections break, new ones are refused. */
  cut(): void;
  restore(): Promise<void>;
  close(): void;
}

/** A way to the database that can be cut. */
async function linkTo(url: string): Promise<DatabaseLink> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const proxy = createServer((inward) => {
    const outward = connect(Number(target.port), target.hostname);
    for (const [from, to] of [
      [inward, outward],
      [outward, inward],
    ] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => sockets.delete(from) && to.destroy());
      from.pipe(to);
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const own = proxy.address();
  if (own === null || typeof own === "string") throw new Error("The proxy has no port");
  const linked = new URL(url);
  linked.hostname = "127.0.0.1";
  linked.port = String(own.port);
  const cut = () => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: linked.href,
    cut,
    async restore() {
      proxy.listen(own.port, "127.0.0.1");
      await once(proxy, "listening");
    },
    close: cut,
  };
}
