import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:net";
import { rootCertificates } from "node:tls";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { LogsInMemory } from "../stream/event.fixture.ts";
import { places, receiverTls, type Siem, startSiem, toWholeEntry } from "./siem.fixture.ts";
import { type SyslogReceiver, startSyslogReceiver } from "./syslog.fixture.ts";
import { openSyslogCollector, type SyslogOptions } from "./syslog.ts";

const HOSTNAME = "auth.example.com";
const SHORT_MS = 500;
/** No test waits for it. */
const LONG_MS = 100_000;

let certificates: TestCertificates;
let tls: ReturnType<typeof receiverTls>;
let database: TestDatabase;
let logs: LogsInMemory;
let receiver: SyslogReceiver;
let started: Siem[];

beforeAll(async () => {
  certificates = await createTestCertificates();
  tls = receiverTls(certificates);
});
afterAll(() => certificates.remove());

beforeEach(async () => {
  database = await createTestDatabase("event-service");
  logs = new LogsInMemory();
  receiver = await startSyslogReceiver(tls);
  started = [];
});
afterEach(async () => {
  receiver.close();
  await Promise.all(started.map((siem) => siem.stop()));
  await database.drop();
});

type Changed = Partial<Omit<SyslogOptions, "reader">>;

async function replica(changed: Changed = {}): Promise<Siem> {
  const options = {
    address: receiver.address,
    tls: () => ({ ca: tls.ca }),
    hostname: HOSTNAME,
    periodMs: 0,
    ...changed,
  };
  const siem = startSiem({ sql: database.sql, logs }, "syslog", (reader) =>
    openSyslogCollector({ ...options, reader }),
  );
  started.push(siem);
  await siem.start();
  return siem;
}

const add = (count: number, log = 0) => logs.add(...Array.from({ length: count }, () => ({ log })));
const upTo = (count: number, log = 0) => Array.from({ length: count }, (_, index) => `${log}:${index + 1}`);
const inOrder = () => receiver.entries.map(({ log, sequence }) => `${log}:${sequence}`);
async function stored() {
  const [row] = await database.ownerSql<{ places: object; problem: string }[]>`
    select places, problem from siem_collectors
  `;
  return row;
}

test("every entry arrives whole, once and in its order, as RFC 5424 wants it", async () => {
  logs.add(
    { kind: "intent", action: "auth.login_with_a_name_that_is_longer_than_a_message_id", resource: "user:7" },
    { outcome: "failure", resource: 'a"b\\c]d' },
  );
  add(1_230, 7);
  await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 2, 7: 1_230 }, problem: "" });
  expect(inOrder()).toEqual([...upTo(2), ...upTo(1_230, 7)]);
  const [first, second] = receiver.entries;
  expect(first).toMatchObject({
    ...{ log: 0, sequence: 1, kind: "intent", clientIp: "203.0.113.9" },
    ...{ userAgent: 'Browser "1" ]\\ ü\nnext', actor: { claimedEmail: "ada@example.com" } },
  });
  const text = receiver.messages[0] ?? "";
  expect(text.split(" ").slice(0, 7)).toEqual([
    ...["<110>1", first?.occurredAt, HOSTNAME, "gatehouse", "identity-service"],
    ...["auth.login_with_a_name_that_is_l", "[gatehouse@32473"],
  ]);
  expect(text).toContain(`log="0" sequence="1" id="${first?.id}" kind="intent" action="auth.login_with`);
  expect(receiver.messages[1]).toContain('resource="a\\"b\\\\c\\]d"');
  expect(receiver.messages[1]).toMatch(/^<108>1 /);
  expect(second?.resource).toBe('a"b\\c]d');
});

test("an entry leaves at once, and is kept for sent only when the receiver has ended the connection", async () => {
  add(1);
  await replica({ periodMs: LONG_MS });
  await expect.poll(inOrder).toEqual(upTo(1));
  add(2);
  await expect.poll(inOrder).toEqual(upTo(3));
  expect(receiver.state).toMatchObject({ connections: 1, ended: 0 });
  expect(await stored()).toMatchObject({ places: {} });
});

test("after 10,000 entries the connection is ended, however short it was", async () => {
  add(10_001);
  await replica({ periodMs: LONG_MS });
  await expect.poll(stored, { timeout: 20_000 }).toMatchObject({ places: { 0: 10_000 } });
  await expect.poll(() => receiver.entries.at(-1)?.sequence).toBe(10_001);
  expect(receiver.state.connections).toBe(2);
  expect(inOrder()).toEqual(upTo(10_001));
});

test("a receiver that resets in the middle gets everything again", async () => {
  receiver.behave((socket, connection) => {
    receiver.reads(socket);
    if (connection === 1) socket.once("data", () => receiver.reset(socket));
  });
  add(700);
  await replica();
  await expect.poll(() => places(receiver.entries)).toEqual(upTo(700));
  await expect.poll(stored).toMatchObject({ places: { 0: 700 }, problem: "" });
  expect(receiver.state).toMatchObject({ connections: 3, ended: 2 });
});

test("a receiver that ends first may have read nothing", async () => {
  receiver.behave((socket) => socket.once("data", () => socket.end()));
  add(3);
  const siem = await replica({ periodMs: LONG_MS });
  await expect.poll(stored).toMatchObject({ problem: "the receiver ended the connection", places: {} });
  receiver.behave();
  await expect.poll(inOrder).toEqual(upTo(3));
  await siem.stop();
  expect(await stored()).toMatchObject({ places: {} });
});

test("what was sent counts also while another log is away, and is not sent again", async () => {
  receiver.behave((socket) => socket.destroy());
  add(2);
  add(3, 7);
  await replica({ periodMs: SHORT_MS });
  await expect.poll(stored).toMatchObject({ problem: expect.stringMatching(/./), places: {} });
  logs.away.add(7);
  const { connections } = receiver.state;
  // The next connection may be of entries that were read before.
  await expect.poll(() => receiver.state.connections).toBeGreaterThan(connections + 1);
  receiver.behave();
  await expect.poll(stored).toMatchObject({ places: { 0: 2 } });
  expect(inOrder()).toEqual(upTo(2));
  logs.away.delete(7);
  await expect.poll(inOrder).toEqual([...upTo(2), ...upTo(3, 7)]);
});

test("what was sent counts although no more can be read", async () => {
  const after = vi.fn(async () => ({ entries: add(1).map(toWholeEntry), next: { 0: 1 } }));
  const options = { address: receiver.address, tls: () => ({ ca: tls.ca }), hostname: HOSTNAME };
  const reader = { after } as unknown as SyslogOptions["reader"];
  const collector = openSyslogCollector({ ...options, periodMs: LONG_MS, reader });
  const pushed = collector.push({}, new AbortController().signal);
  after.mockRejectedValue(new DomainError("service_unavailable"));
  expect(await pushed).toEqual({ 0: 1 });
  expect(inOrder()).toEqual(upTo(1));
});

test("a receiver that never reads, and one that never ends, is a problem in time", async () => {
  receiver.behave((socket) => socket.pause());
  logs.add(...Array.from({ length: 30_000 }, () => ({ reason: "x".repeat(200) })));
  const silent = await replica({ deadlineMs: SHORT_MS, periodMs: LONG_MS });
  await expect.poll(stored).toMatchObject({ problem: "too_slow", places: {} });
  await silent.stop();
  await database.ownerSql`update siem_collectors set problem = ''`;
  // Reads, but leaves its own side open.
  receiver.behave((socket) => {
    socket.allowHalfOpen = true;
    receiver.reads(socket);
  });
  await replica({ deadlineMs: SHORT_MS });
  await expect.poll(stored).toMatchObject({ problem: "too_slow", places: {} });
  expect(receiver.state.ended).toBeGreaterThan(0);
  expect(receiver.entries.length).toBeGreaterThan(0);
});

test("a receiver that is killed when it has read everything has confirmed nothing", async () => {
  // What the system sends for a process that is gone: the end of TCP without the end of TLS.
  const front = createServer({ allowHalfOpen: true }, (client) => {
    const behind = connect({ port: Number(receiver.address.split(":")[1]), allowHalfOpen: true });
    for (const each of [client, behind]) each.on("error", () => undefined);
    client.pipe(behind);
    let isEnded = false;
    behind.on("data", (chunk) => isEnded || client.write(chunk));
    client.on("end", () => {
      isEnded = true;
      client.end();
    });
  });
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  const address = `127.0.0.1:${(front.address() as AddressInfo).port}`;
  add(5);
  const siem = await replica({ address });
  await expect.poll(stored).toMatchObject({ problem: "the connection was cut", places: {} });
  await expect.poll(() => places(receiver.entries)).toEqual(upTo(5));
  await siem.stop();
  front.close();
});

test("a receiver that talks is a problem after some KiB", async () => {
  receiver.behave((socket) => {
    receiver.reads(socket);
    socket.write("welcome");
  });
  add(1);
  const siem = await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 1 }, problem: "" });
  await siem.stop();
  receiver.behave((socket) => void socket.write("x".repeat(5_000)));
  add(1);
  await replica({ periodMs: LONG_MS });
  await expect.poll(stored).toMatchObject({ places: { 0: 1 }, problem: "the receiver sends data" });
});

test.each<[string, () => Changed]>([
  ["of another authority", () => ({ tls: () => ({ ca: rootCertificates[0] }) })],
  ["of another name", () => ({ address: receiver.address.replace("127.0.0.1", "127.0.0.2") })],
])("a receiver with a certificate %s gets nothing", async (_, changed) => {
  add(1);
  await replica(changed());
  await expect.poll(stored).toMatchObject({ problem: "unreachable", places: {} });
  expect(receiver.messages).toEqual([]);
});

test("a receiver of old TLS gets nothing", async () => {
  receiver.close();
  const ciphers = "DEFAULT@SECLEVEL=0";
  receiver = await startSyslogReceiver({ ...tls, ciphers, minVersion: "TLSv1", maxVersion: "TLSv1.1" });
  add(1);
  await replica();
  await expect.poll(stored).toMatchObject({ problem: "unreachable", places: {} });
});

test("a receiver may want a certificate", async () => {
  receiver.close();
  receiver = await startSyslogReceiver({ ...tls, requestCert: true, rejectUnauthorized: true });
  add(2);
  const stranger = await replica();
  await expect.poll(stored).toMatchObject({ problem: expect.stringMatching(/./), places: {} });
  await stranger.stop();
  await replica({ tls: () => ({ ca: tls.ca, cert: tls.cert, key: tls.key }) });
  await expect.poll(stored).toMatchObject({ problem: "", places: { 0: 2 } });
});

test("a frozen replica whose lease has ended stores nothing; the next one sends it again", async () => {
  add(4);
  const [one, two] = [await replica({ periodMs: LONG_MS }), await replica()];
  await expect.poll(inOrder).toEqual(upTo(4));
  await one.freeze();
  await database.ownerSql`update siem_collectors set leased_until = now()`;
  await expect.poll(stored).toMatchObject({ places: { 0: 4 } });
  expect(two.collectors.lags).toMatchObject([{ collector: "syslog" }]);
  expect(inOrder()).toEqual([...upTo(4), ...upTo(4)]);
  add(3);
  await expect.poll(stored).toMatchObject({ places: { 0: 7 } });
  expect(places(receiver.entries)).toEqual(upTo(7));
});
