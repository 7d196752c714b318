import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { AuditSpool } from "#audit-client/spool/audit-spool.ts";
import { sampleOutcome } from "#audit-client/stream/entry.fixture.ts";
import { newProducerId } from "#audit-client/stream/producer-id.ts";
import { toProto } from "#audit-client/stream/to-proto.ts";
import { insertEntries, selectEntriesById } from "#audit-service/entries/entry-store.ts";
import { storeEntries } from "#audit-service/entries/store-entries.ts";
import { AUDIT_CALLERS, createAuditRpc, createProducerPresence } from "#audit-service/intake/audit-rpc.ts";
import { EntryRecorder } from "#audit-service/intake/record-entries.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { AuditServiceService } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { Entry } from "#proto/gatehouse/audit/v1/entry.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { certificateFiles, ensureCertificates } from "../local/certificates.ts";

const logger = pino({ level: "silent" });
/** Fixed: a resent entry keeps its time. */
const occurredAt = new Date();
let home: string;
let directory: string;
let database: TestDatabase;
let certificate: ProcessCertificate;
let server: RpcServer | undefined;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "gatehouse-drain-test-"));
  await ensureCertificates(home, new Date(), "tester");
  const files = certificateFiles(home, "audit-service");
  certificate = new ProcessCertificate({
    certFile: files.certificate,
    keyFile: files.key,
    caFile: files.authority,
  });
});

afterAll(async () => {
  certificate.close();
  await rm(home, { recursive: true, force: true });
});

beforeEach(async () => {
  database = await createTestDatabase("audit-service");
  directory = join(home, randomUUID(), "audit");
});

afterEach(async () => {
  await server?.close(0);
  server = undefined;
  await database.drop();
});

test("entries of several gateways in a claim are stored once under the gateway's name, and the claim is emptied", async () => {
  const port = await startAuditService();
  const first = await leave(1, 450);
  await leave(7, 9);
  expect(await drain(port)).toEqual({
    code: 0,
    said: `${directory}: 453 audit entries were sent\n${directory}: empty`,
  });
  expect(await stored()).toEqual([{ entries: 453, producers: 2, names: ["gateway"] }]);
  expect(await readdir(directory)).toEqual([]);

  // The same files again, as if a Job was stopped before it removed them.
  await leave(1, 450, first);
  expect(await drain(port)).toMatchObject({ code: 0 });
  expect(await stored()).toMatchObject([{ entries: 453 }]);
});

test("a claim without entries and an unused claim count as empty", async () => {
  const port = await startAuditService();
  expect(await drain(port)).toEqual({
    code: 0,
    said: `${directory}: 0 audit entries were sent\n${directory}: empty`,
  });
  expect(await drain(port)).toMatchObject({ code: 0 });
});

test("entries that cannot be sent in time are kept, counted, and sent by the next attempt", async () => {
  const port = await startAuditService();
  await leave(1, 3);
  await server?.close(0);
  const { code, said } = await drain(port, "1");
  expect(code).toBe(1);
  expect(said).toContain(
    `not empty after 1 s: 1 files hold entries that could not be sent to 127.0.0.1:${port}`,
  );
  await startAuditService(port);
  expect(await drain(port)).toMatchObject({ code: 0 });
  expect(await stored()).toMatchObject([{ entries: 3 }]);
});

test("files of a running process are not taken over, and the claim does not count as empty", async () => {
  const port = await startAuditService();
  const producerId = newProducerId(0);
  const living = await spoolOf(producerId);
  await living.spools.get(producerId)?.append([entryAt(1)]);
  const { code, said } = await drain(port, "1");
  expect([code, said]).toEqual([1, expect.stringContaining("1 files hold entries")]);
  expect(await stored()).toMatchObject([{ entries: 0 }]);
  await living.close();
  expect(await drain(port)).toMatchObject({ code: 0 });
});

test("a file that cannot be read is reported and kept, and everything else is sent", async () => {
  const port = await startAuditService();
  await leave(1, 3);
  await mkdir(join(directory, ".damaged"), { recursive: true });
  await writeFile(join(directory, ".damaged", "old.spool.damaged"), "unreadable");
  const { code, said } = await drain(port);
  expect([code, said]).toEqual([
    1,
    expect.stringContaining("1 files in .damaged/ hold entries that cannot be read"),
  ]);
  expect(await stored()).toMatchObject([{ entries: 3 }]);
});

function entryAt(sequence: number) {
  const wire = toProto(sampleOutcome({ resource: `pay_${sequence}` }), {
    id: randomUUID(),
    occurredAt,
  });
  return { sequence, entry: Entry.encode(wire).finish() };
}

function spoolOf(producerId: string) {
  return AuditSpool.open({
    directory,
    maxBytes: 1e8,
    producerIds: [producerId],
    logger,
    metrics: createMetrics("gateway"),
  });
}

/** Leaves entries like a gateway that ends during an outage of audit-service. @returns its producer id. */
async function leave(first: number, last: number, producerId: string = newProducerId(0)): Promise<string> {
  const gateway = await spoolOf(producerId);
  const sequences = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  await gateway.spools.get(producerId)?.append(sequences.map(entryAt));
  await gateway.close();
  return producerId;
}

async function startAuditService(port = 0): Promise<number> {
  const sql = database.sql;
  const recorder = new EntryRecorder({
    insertEntries: (entries) => storeEntries({ insertEntries: (rows) => insertEntries(sql, rows) }, entries),
    selectEntriesById: (ids) => selectEntriesById(sql, ids),
    logger,
  });
  server = new RpcServer({
    address: `127.0.0.1:${port}`,
    certificate,
    logger,
    metrics: createMetrics("audit-service"),
    maxReceiveBytes: 1024 * 1024,
  });
  const rpc = createAuditRpc({
    logs: [{ number: 0, intake: sql, recorder, presence: createProducerPresence() }],
    recordReading: async () => undefined,
    now: () => new Date(),
  });
  server.add(AuditServiceService, AUDIT_CALLERS, rpc, ["record"]);
  return server.listen();
}

/** Runs the program of the image. @returns the exit code, and the output without log lines. */
async function drain(port: number, timeoutS = "20"): Promise<{ code: number; said: string }> {
  const files = certificateFiles(home, "gateway");
  const child = spawn(process.execPath, [resolve(import.meta.dirname, "run.ts"), "drain-spool"], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      AUDIT_SPOOL_DIRECTORY: directory,
      AUDIT_SERVICE_ADDRESS: `127.0.0.1:${port}`,
      DRAIN_TIMEOUT_S: timeoutS,
      TLS_CERT_FILE: files.certificate,
      TLS_KEY_FILE: files.key,
      TLS_CA_FILE: files.authority,
    },
  });
  // Both at the same time: Node discards what a pipe still holds when the child has ended.
  const [out, error, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  const said = `${out}${error}`.split("\n").filter((line) => line !== "" && !line.startsWith("{"));
  return { code, said: said.join("\n") };
}

function stored() {
  return database.ownerSql`
    select count(*)::int as entries, count(distinct producer_id)::int as producers, array_agg(distinct producer_name) as names
    from log_entries`;
}
