import { rootCertificates } from "node:tls";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { LogsInMemory } from "../stream/event.fixture.ts";
import { openOtlpCollector } from "./otlp.ts";
import {
  type OtlpReceiver,
  places,
  receiverTls,
  type Siem,
  startOtlpReceiver,
  startSiem,
} from "./siem.fixture.ts";

let certificates: TestCertificates;
let database: TestDatabase;
let logs: LogsInMemory;
let receiver: OtlpReceiver;
let started: Siem[];

beforeAll(async () => {
  certificates = await createTestCertificates();
});
afterAll(() => certificates.remove());

beforeEach(async () => {
  database = await createTestDatabase("event-service");
  logs = new LogsInMemory();
  receiver = await startOtlpReceiver(receiverTls(certificates));
  started = [];
});
afterEach(async () => {
  receiver.close();
  await Promise.all(started.map((siem) => siem.stop()));
  await database.drop();
});

async function replica(ca: string | undefined = receiverTls(certificates).ca): Promise<Siem> {
  const options = {
    url: receiver.url,
    headers: () => ({ authorization: "Bearer t" }),
    ca,
    now: () => new Date(),
  };
  const siem = startSiem({ sql: database.sql, logs }, "otlp", (reader) =>
    openOtlpCollector({ ...options, reader }),
  );
  started.push(siem);
  await siem.start();
  return siem;
}

const add = (count: number, log = 0) => logs.add(...Array.from({ length: count }, () => ({ log })));
const upTo = (count: number, log = 0) => Array.from({ length: count }, (_, index) => `${log}:${index + 1}`);
async function stored() {
  const [row] = await database.ownerSql<{ places: object; problem: string; failing: boolean }[]>`
    select places, problem, failing_since is not null as failing from siem_collectors
  `;
  return row;
}

test("every entry of every log is sent whole, from the beginning on, also intents, network and device", async () => {
  logs.add({ kind: "intent", action: "auth.login" }, { outcome: "failure", traceId: "ab".repeat(16) });
  add(230, 7);
  await replica();
  await expect.poll(() => places(receiver.taken)).toEqual([...upTo(2), ...upTo(230, 7)]);
  expect(receiver.taken[0]).toMatchObject({
    ...{ log: 0, sequence: 1, kind: "intent", action: "auth.login", clientIp: "203.0.113.9" },
    ...{ userAgent: 'Browser "1" ]\\ ü\nnext', actor: { claimedEmail: "ada@example.com" } },
  });
  const [, failed] = receiver.records;
  expect(failed).toMatchObject({ severityText: "WARN", traceId: "ab".repeat(16) });
  expect(receiver.records[0]).toMatchObject({
    eventName: "gatehouse.auth.login",
    timeUnixNano: expect.stringMatching(/^\d{13}000000$/),
    attributes: expect.arrayContaining([
      { key: "gatehouse.log", value: { intValue: "0" } },
      { key: "gatehouse.sequence", value: { intValue: "1" } },
      { key: "log.record.uid", value: { stringValue: receiver.taken[0]?.id } },
      { key: "client.address", value: { stringValue: "203.0.113.9" } },
    ]),
  });
  expect(receiver.requests[0]?.headers).toMatchObject({
    authorization: "Bearer t",
    "content-encoding": "gzip",
  });
  await expect.poll(stored).toMatchObject({ places: { 0: 2, 7: 230 }, problem: "", failing: false });
  add(1);
  await expect.poll(() => places(receiver.taken)).toContain("0:3");
  // Nothing comes twice while nothing fails.
  expect(receiver.taken).toHaveLength(233);
});

test("what a receiver that is away, overloaded or refusing did not take is sent when it is back", async () => {
  receiver.answer((_, response) => response.writeHead(503).end());
  add(750);
  const siem = await replica();
  await expect.poll(stored).toMatchObject({ places: {}, problem: "status 503", failing: true });
  for (const status of [400, 404, 429]) {
    receiver.answer((_, response) => response.writeHead(status).end());
    await expect.poll(stored).toMatchObject({ problem: `status ${status}` });
  }
  receiver.answer((_, response) => response.destroy());
  await expect.poll(stored).toMatchObject({ problem: "unreachable" });
  expect(siem.collectors.lags).toEqual([{ collector: "otlp", entries: 750, seconds: expect.any(Number) }]);
  expect(receiver.taken).toEqual([]);
  receiver.answer();
  await expect.poll(() => places(receiver.taken)).toEqual(upTo(750));
  await expect.poll(stored).toMatchObject({ problem: "", failing: false });
  await expect.poll(() => siem.collectors.lags).toMatchObject([{ entries: 0 }]);
});

test("entries that a partial success refuses are not dropped", async () => {
  receiver.answer((_, response) =>
    response.writeHead(200).end('{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"full"}}'),
  );
  add(5);
  await replica();
  await expect.poll(stored).toMatchObject({ problem: "2 entries refused (partial success)", places: {} });
  receiver.taken.length = 0;
  receiver.answer((_, response) => response.writeHead(200).end('{"partialSuccess":{}}'));
  await expect.poll(() => places(receiver.taken)).toEqual(upTo(5));
  await expect.poll(stored).toMatchObject({ problem: "", places: { 0: 5 } });
});

test("a receiver is left alone for as long as it asks", async () => {
  let isFirst = true;
  receiver.answer((_, response) => {
    if (!isFirst) return response.writeHead(200).end();
    isFirst = false;
    return response.writeHead(429, { "retry-after": "1" }).end();
  });
  add(1);
  await replica();
  await expect.poll(() => places(receiver.taken), { timeout: 10_000 }).toEqual(upTo(1));
  const [first, second] = receiver.requests;
  expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThan(990);
});

test("an endless answer, and one of another authority, is a problem", async () => {
  receiver.answer((_, response) => {
    response.writeHead(200);
    const more = () => void response.write("x".repeat(65_536), more);
    more();
  });
  add(3);
  const siem = await replica();
  await expect.poll(stored).toMatchObject({ problem: "too_long", places: {} });
  await siem.stop();
  receiver.answer();
  // Of nobody that issued the receiver's certificate.
  await replica(rootCertificates[0]);
  await expect.poll(stored).toMatchObject({ problem: "unreachable", places: {} });
  expect(receiver.taken).toEqual([]);
});

test("a replica whose lease has ended stores nothing; what it sent comes again from the next one", async () => {
  const held = Promise.withResolvers<void>();
  let isFirst = true;
  receiver.answer(async (_, response) => {
    if (isFirst) {
      isFirst = false;
      await held.promise;
    }
    response.writeHead(200).end();
  });
  add(4);
  const [one, two] = [await replica(), await replica()];
  await expect.poll(() => receiver.requests).toHaveLength(1);
  expect([...one.collectors.lags, ...two.collectors.lags]).toHaveLength(1);
  await one.freeze();
  await database.ownerSql`update siem_collectors set leased_until = now()`;
  await expect.poll(() => places(receiver.taken)).toEqual(upTo(4));
  await expect.poll(stored).toMatchObject({ places: { 0: 4 } });
  add(3);
  await expect.poll(stored).toMatchObject({ places: { 0: 7 } });
  held.resolve();
  await expect.poll(() => one.collectors.lags).toEqual([]);
  expect(await stored()).toMatchObject({ places: { 0: 7 } });
  expect(places(receiver.taken)).toEqual(upTo(7));
});

test("while one of the logs is away, the others are sent, and it is no failure of the receiver", async () => {
  let asked: string[] = [];
  receiver.answer((entries, response) => {
    asked = places(entries);
    response.writeHead(500).end();
  });
  add(2);
  add(3, 7);
  const siem = await replica();
  await expect.poll(() => asked).toEqual([...upTo(2), ...upTo(3, 7)]);
  logs.away.add(7);
  await expect.poll(() => asked).toEqual(upTo(2));
  receiver.answer();
  await expect.poll(() => places(receiver.taken)).toEqual(upTo(2));
  // Nothing is left but what is away: it looks again and again.
  const reads = logs.reads;
  await expect.poll(() => logs.reads).toBeGreaterThan(reads + 50);
  expect(await stored()).toMatchObject({ problem: "", failing: false, places: { 0: 2 } });
  expect(siem.collectors.lags).toMatchObject([{ entries: 3 }]);
  logs.away.clear();
  await expect.poll(() => places(receiver.taken)).toEqual([...upTo(2), ...upTo(3, 7)]);
});

test("a log that is shorter than it was is a problem that is shown, not a silence", async () => {
  add(5);
  const siem = await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 5 } });
  logs.cut(0, 2);
  await expect.poll(stored).toMatchObject({ problem: "the audit log or the database", places: { 0: 5 } });
  expect(siem.lines.join("")).toContain("validation_failed");
});
