import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type AuditServiceServer, AuditServiceService } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { Entry } from "#proto/gatehouse/audit/v1/entry.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { AuditSpool } from "../spool/audit-spool.ts";
import { sampleIntent, sampleOutcome } from "../stream/entry.fixture.ts";
import { logOfProducer, newProducerId } from "../stream/producer-id.ts";
import { toProto } from "../stream/to-proto.ts";
import { createAuditRecorder } from "./audit-recorder.ts";

const logger = pino({ level: "silent" });
let certificates: TestCertificates;
let server: RpcServer;
let port: number;
let path: string;
let metrics: Metrics;
/** Their streams are refused. */
let away: Set<number>;
/** Resources by producer. */
let stored: Map<string, string[]>;
const cleanUps: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  certificates = await createTestCertificates();
});

afterAll(() => certificates.remove());

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), "gatehouse-recorder-"));
  metrics = createMetrics("gateway");
  away = new Set();
  stored = new Map();
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("audit-service"),
    logger,
    metrics: createMetrics("audit-service"),
  });
  const methods: Implementation<AuditServiceServer> = {
    async *record(requests) {
      for await (const { producerId, entries } of requests) {
        if (away.has(logOfProducer(producerId))) throw new DomainError("service_unavailable");
        const resources = entries.map(({ entry }) => entry?.resource ?? "");
        stored.set(producerId, [...(stored.get(producerId) ?? []), ...resources]);
        yield { acknowledgedSequence: entries.at(-1)?.sequence ?? 0 };
      }
    },
    eraseClaimedEmail: async () => ({}) as never,
  };
  server.add(AuditServiceService, { record: ["gateway"], eraseClaimedEmail: [] }, methods);
  port = await server.listen();
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
  await server.close(0);
  await rm(path, { recursive: true, force: true });
});

test("a process is one producer for each log, with one directory, and its metrics are the sums", async () => {
  const recorder = await start([0, 7]);
  await expect.poll(() => stored.size).toBe(2); // both streams are answered
  for (let call = 0; call < 4; call += 1) {
    await recorder.next().record(sampleIntent({ resource: `call ${call}` }), inTime());
  }
  expect(storedByLog()).toEqual({ 0: ["call 0", "call 2"], 7: ["call 1", "call 3"] });
  expect(await metrics.render()).toMatch(/^gatehouse_audit_acknowledged_total\{.*\} 4$/m);
  away = new Set([0, 7]);
  await server.close(0);
  for (let call = 0; call < 2; call += 1) await recorder.next().record(sampleIntent(), inTime());
  expect(await readdir(path)).toHaveLength(1);
  expect((await spoolFiles()).map((name) => logOfProducer(name.slice(0, 36))).sort()).toEqual([0, 7]);
  expect(await metrics.render()).toMatch(/^gatehouse_audit_queued_entries\{.*\} 2$/m);
});

test("the limit of the queue is shared out in equal parts", async () => {
  const recorder = createAuditRecorder({
    ...connection(),
    logs: [0, 1],
    maxQueuedEntries: 8,
    reservedForOutcomes: 4,
  });
  cleanUps.push(() => recorder.close(0));
  const taken: string[] = [];
  expect(() => {
    for (;;) {
      recorder.next().enqueue(sampleIntent());
      taken.push("intent");
    }
  }).toThrow("The queue is full");
  expect(taken).toHaveLength(4);
});

test("former entries are sent under their own producer, also of a log that is no longer written to, past one that is away", async () => {
  away = new Set([3]);
  const former = [newProducerId(3), newProducerId(5), newProducerId(0)];
  await leave(former);
  const recorder = await start([0, 1]);
  await expect.poll(() => stored.get(former[1] ?? "")).toEqual(["of log 5"]);
  await expect.poll(() => stored.get(former[2] ?? "")).toEqual(["of log 0"]);
  expect(storedByLog()[3]).toBeUndefined();
  away.clear();
  await expect.poll(() => stored.get(former[0] ?? "")).toEqual(["of log 3"]);
  cleanUps.length = 0;
  await recorder.close(5_000);
  expect(await readdir(path)).toEqual([]);
});

test("producers share the room of the spool, less what former processes left there", async () => {
  await leave([newProducerId(3)]);
  const spool = await AuditSpool.open({
    directory: path,
    maxBytes: 100_000,
    producerIds: [newProducerId(0), newProducerId(1)],
    logger,
    metrics,
  });
  cleanUps.push(() => spool.close());
  const [first, second] = [...spool.spools.values()];
  const before = first?.freeBytes ?? 0;
  expect(before).toBeLessThan(50_000);
  expect(second?.freeBytes).toBe(before);
  const bytesBefore = await bytesInSpool();
  expect(bytesBefore).toBeGreaterThan(100);
  await first?.append([entryOf("own")]);
  expect(second?.freeBytes).toBe(before);
  const own = before - (first?.freeBytes ?? 0);
  expect(own).toBeGreaterThan(100);
  expect(await bytesInSpool()).toBe(bytesBefore + own);
});

function connection() {
  return { address: `127.0.0.1:${port}`, certificate: certificates.of("gateway"), logger, metrics };
}

async function start(logs: readonly number[]) {
  const producerIds = logs.map(newProducerId);
  const spool = await AuditSpool.open({ directory: path, maxBytes: 1e8, producerIds, logger, metrics });
  const recorder = createAuditRecorder({ ...connection(), spool });
  cleanUps.push(() => recorder.close(0));
  return recorder;
}

/** Leaves an entry of each producer, as a process that ends while audit-service is away. */
async function leave(producerIds: readonly string[]): Promise<void> {
  const options = { directory: path, maxBytes: 1e8, producerIds, logger };
  const spool = await AuditSpool.open({ ...options, metrics: createMetrics("gateway") });
  for (const [producerId, own] of spool.spools) {
    await own.append([entryOf(`of log ${logOfProducer(producerId)}`)]);
  }
  await spool.close();
}

function entryOf(resource: string) {
  const id = "0190b6a0-0000-7000-8000-0000000000ff";
  const wire = toProto(sampleOutcome({ resource }), { id, occurredAt: new Date() });
  return { sequence: 1, entry: Entry.encode(wire).finish() };
}

function storedByLog(): Record<number, string[]> {
  return Object.fromEntries([...stored].map(([producerId, all]) => [logOfProducer(producerId), all]));
}

async function spoolFiles(): Promise<string[]> {
  const [directory = ""] = await readdir(path);
  return (await readdir(join(path, directory))).filter((name) => name.endsWith(".spool"));
}

async function bytesInSpool(): Promise<number> {
  return Number(/^gatehouse_audit_spool_bytes\{.*\} (\d+)$/m.exec(await metrics.render())?.[1]);
}

function inTime(): number {
  return Date.now() + 30_000;
}
