import { randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  changeEndpoint,
  createEndpoint,
  deleteEndpoint,
  getEndpoint,
  listDeliveries,
  renewEncryptions,
  replayEvents,
  rotateSecret,
  sendTest,
} from "../manage/manage-endpoints.ts";
import { LogsInMemory } from "../stream/event.fixture.ts";
import { summarizeWaiting } from "./delivery-store.ts";
import { newKey, type Receiver, type Replica, startReceiver, startReplica } from "./replica.fixture.ts";
import { tellPauses } from "./tell-pauses.ts";

let database: TestDatabase;
let logs: LogsInMemory;
let replicas: Replica[];
let receivers: Receiver[];
const keys = [newKey()] as const;
/** Making it takes seconds on a machine that is busy, and an answer has five. */
const BOMB = gzipSync(Buffer.alloc(64 * 1024 * 1024)).subarray(0, 60_000);
const OWNER = "0199a000-0000-7000-8000-000000000001";

beforeEach(async () => {
  database = await createTestDatabase("event-service");
  logs = new LogsInMemory();
  replicas = [];
  receivers = [];
});

afterEach(async () => {
  await Promise.all(replicas.map((replica) => replica.stop()));
  for (const receiver of receivers) receiver.close();
  await database.drop();
});

async function replica(): Promise<Replica> {
  const started = startReplica({ sql: database.sql, logs, keys });
  replicas.push(started);
  await started.start();
  return started;
}

async function receiver(): Promise<Receiver> {
  const started = await startReceiver();
  receivers.push(started);
  return started;
}

async function endpointAt(
  { url }: Pick<Receiver, "url">,
  { manage }: Replica,
  change: { types?: string[]; isTemporary?: boolean } = {},
) {
  const wanted = { name: "shop", url, types: ["gatehouse.*"], ownerId: OWNER, isTemporary: false, ...change };
  const { endpoint, secret } = await createEndpoint(manage, wanted);
  return { id: endpoint.id, secret };
}

const sequences = ({ received }: Receiver) => received.map(({ sequence }) => sequence);
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
const add = (count: number, entry: Parameters<LogsInMemory["add"]>[0] = {}) =>
  logs.add(...Array.from({ length: count }, () => entry));
const deliveriesOf = async ({ manage }: Replica, id: string) =>
  (await listDeliveries(manage, id, { cursor: "", limit: 100 })).deliveries;
/** As if the time of pauses had passed. */
const endPauses = () =>
  database.ownerSql`update deliveries set next_attempt_at = now() where state = 'waiting'`;
/** The courier begins anew, so what it had not stored yet is sent again. */
const endRest = () => database.ownerSql`update endpoints set rests_until = null, version = version + 1`;

test("an event is delivered as Standard Webhooks has it: its library verifies what arrives", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id, secret } = await endpointAt(shop, one);
  const [entry] = logs.add({ resource: "0199a000-0000-7000-8000-000000000001" });
  await expect.poll(() => shop.received).toHaveLength(1);
  const [{ headers, body } = { headers: {}, body: "" }] = shop.received;
  expect(new Webhook(secret).verify(body, headers)).toMatchObject({
    specversion: "1.0",
    id: entry?.id,
    sequence: "1",
  });
  expect(() => new Webhook(secret).verify(`${body} `, headers)).toThrow();
  expect(headers).toMatchObject({
    "webhook-id": entry?.id,
    "content-type": "application/cloudevents+json; charset=utf-8",
  });
  await expect
    .poll(() => deliveriesOf(one, id))
    .toMatchObject([
      {
        eventId: entry?.id,
        state: "delivered",
        attempts: 1,
        httpStatus: 204,
        problem: "",
        type: "gatehouse.user.password_changed.v1",
      },
    ]);
});

test("an endpoint gets the types that it asked for, from its making on", async () => {
  const [shop, one] = [await receiver(), await replica()];
  add(3);
  await expect.poll(() => one.events.tip).toEqual({ 0: 3 });
  await endpointAt(shop, one, { types: ["gatehouse.session.*"] });
  logs.add(
    { action: "user.password_changed" },
    { action: "session.revoked" },
    { kind: "intent", action: "session.revoked" },
    { action: "session.revoked" },
  );
  await expect.poll(() => sequences(shop)).toEqual([5, 7]);
});

test("a type may be that of a forwarded call whose action has a hyphen, as a routes file allows it", async () => {
  const [shop, one] = [await receiver(), await replica()];
  await endpointAt(shop, one, { types: ["gatehouse.payments.bulk-create.v1", "gatehouse.pay-outs.*"] });
  logs.add(
    { action: "payments.bulk-create" },
    { action: "payments.bulk" },
    { action: "pay-outs.create" },
    { action: "pay.create" },
  );
  await expect.poll(() => sequences(shop).toSorted()).toEqual([1, 3]);
});

test("events of one subject come in order, also behind one that fails; those of others do not wait for it", async () => {
  const [shop, one] = [await receiver(), await replica()];
  await endpointAt(shop, one);
  const [ada, bob] = [randomUUID(), randomUUID()];
  let isRefusing = true;
  shop.answer(({ sequence }, response) => response.writeHead(isRefusing && sequence === 1 ? 500 : 204).end());
  logs.add({ resource: ada }, { resource: bob }, { resource: ada }, { resource: bob }, { resource: ada });
  await expect.poll(() => sequences(shop).toSorted()).toEqual([1, 2, 4]);
  logs.add({ resource: ada }, { resource: bob });
  await expect.poll(() => sequences(shop).filter((sequence) => sequence > 4)).toEqual([7]);
  isRefusing = false;
  await endPauses();
  await expect
    .poll(() => shop.received.filter(({ subject }) => subject === ada).map(({ sequence }) => sequence))
    .toEqual([1, 1, 3, 5, 6]);
  expect(shop.received.filter(({ subject }) => subject === bob).map(({ sequence }) => sequence)).toEqual([
    2, 4, 7,
  ]);
});

test("a dead endpoint and a slow one do not make the others late, and a dead one costs some calls and no more", async () => {
  const [shop, dead, slow, one] = [await receiver(), await receiver(), await receiver(), await replica()];
  dead.status(503);
  slow.answer(() => undefined);
  const { id } = await endpointAt(dead, one);
  await endpointAt(slow, one);
  await endpointAt(shop, one);
  add(150);
  await expect.poll(() => new Set(sequences(shop)).size).toBe(150);
  await expect.poll(() => getEndpoint(one.manage, id)).toMatchObject({ failingSince: expect.any(Date) });
  add(150);
  await expect.poll(() => new Set(sequences(shop)).size).toBe(300);
  expect(shop.received).toHaveLength(300);
  expect(dead.received.length).toBeLessThan(40);
  expect(slow.received.length).toBeLessThan(40);
});

test("what waits behind a failure is due with it: the courier does not ask for it before", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  shop.answer(({ sequence }, response) => response.writeHead(sequence === 1 ? 500 : 204).end());
  const subject = randomUUID();
  logs.add({ resource: subject }, { resource: subject }, { resource: "" });
  const waiting = async () => (await deliveriesOf(one, id)).filter(({ state }) => state === "waiting");
  await expect.poll(waiting).toHaveLength(2);
  const [behind, head] = await waiting();
  expect(behind?.nextAttemptAt?.getTime()).toBeLessThan(head?.nextAttemptAt?.getTime() ?? 0);
  const firstDueAt = head?.nextAttemptAt;
  expect(await summarizeWaiting(database.sql, { endpointId: id })).toEqual({
    count: 2,
    firstDueAt,
    subjects: new Set([subject]),
  });
});

test("an endpoint that was away gets everything, each once, when it is back", async () => {
  const [shop, one] = [await receiver(), await replica()];
  shop.status(500);
  const { id } = await endpointAt(shop, one);
  add(40, { resource: randomUUID() });
  add(60);
  await expect.poll(async () => (await getEndpoint(one.manage, id)).failingSince).not.toBeNull();
  await expect.poll(async () => (await getEndpoint(one.manage, id)).waiting).toBe(100);
  shop.received.length = 0;
  shop.status(200);
  await expect.poll(() => sequences(shop).toSorted((a, b) => a - b)).toEqual(upTo(100));
  expect(sequences(shop).filter((sequence) => sequence <= 40)).toEqual(upTo(40));
  await expect
    .poll(() => getEndpoint(one.manage, id))
    .toMatchObject({ failingSince: null, waiting: 0, status: "active" });
});

test("an event that fails again and again is given up after its last pause; what is behind it goes on", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  shop.answer(({ sequence }, response) => response.writeHead(sequence === 1 ? 400 : 204).end());
  const subject = randomUUID();
  logs.add({ resource: subject }, { resource: subject });
  for (let attempt = 1; attempt <= 10; attempt += 1) {
    await expect.poll(async () => (await deliveriesOf(one, id)).at(-1)?.attempts).toBe(attempt);
    await endPauses();
    await endRest();
  }
  await expect
    .poll(() => deliveriesOf(one, id))
    .toMatchObject([
      { state: "delivered", sequence: 2 },
      { state: "given_up", sequence: 1, httpStatus: 400, problem: "status", attempts: 10 },
    ]);
});

test("an endpoint that is away for long loses nothing: what is tried before its time is not given up for that", async () => {
  const [shop, one] = [await receiver(), await replica()];
  shop.status(500);
  const { id } = await endpointAt(shop, one);
  add(6);
  const isResting = async () => {
    const [row] = await database.ownerSql`select rests_until from endpoints where id = ${id}`;
    return row?.rests_until !== null;
  };
  await expect.poll(isResting).toBe(true);
  for (let round = 1; round <= 12; round += 1) {
    await endRest();
    await expect.poll(isResting).toBe(true);
  }
  expect((await getEndpoint(one.manage, id)).waiting).toBe(6);
  shop.received.length = 0;
  shop.status(204);
  await endRest();
  await expect.poll(() => new Set(sequences(shop))).toEqual(new Set(upTo(6)));
});

test("while the endpoint rests, what is due is tried before what is not: one event that nobody takes holds up no others", async () => {
  const [shop, one] = [await receiver(), await replica()];
  shop.status(500);
  const { id } = await endpointAt(shop, one);
  add(6);
  await expect.poll(async () => (await getEndpoint(one.manage, id)).waiting).toBe(6);
  shop.answer(({ sequence }, response) => response.writeHead(sequence === 1 ? 500 : 204).end());
  await database.ownerSql`update deliveries set next_attempt_at = now() + interval '1 hour' where sequence = 1`;
  await database.ownerSql`update deliveries set next_attempt_at = now() where sequence > 1`;
  await endRest();
  await expect
    .poll(async () => (await deliveriesOf(one, id)).filter(({ state }) => state === "delivered"))
    .toHaveLength(5);
});

test.each<[string, number, Record<string, string>]>([
  ["410", 410, {}],
  ["Retry-After", 429, { "retry-after": "3600" }],
])("after %s nothing more is sent, nor what is new", async (_name, status, headers) => {
  const [shop, one] = [await receiver(), startReplica({ sql: database.sql, logs, keys })];
  replicas.push(one);
  await one.events.read();
  const { id } = await endpointAt(shop, one);
  shop.status(500);
  add(1);
  await one.events.read();
  await one.couriers.beat();
  await expect.poll(async () => (await getEndpoint(one.manage, id)).waiting).toBe(1);
  await one.couriers.stop();
  shop.answer((_, response) => response.writeHead(status, headers).end());
  await endPauses();
  add(1);
  await one.events.read();
  await one.couriers.beat();
  await expect.poll(async () => (await deliveriesOf(one, id)).at(-1)?.attempts).toBe(2);
  // It has ended what it was doing.
  await one.couriers.stop();
  expect(sequences(shop)).toEqual([1, 1]);
});

test("a batch under way ends with the endpoint, however slow its receiver is", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  const release = Promise.withResolvers<void>();
  shop.answer(async (_, response) => {
    await release.promise;
    response.writeHead(200).end();
  });
  add(5, { resource: randomUUID() });
  await expect.poll(() => shop.received).toHaveLength(1);
  await deleteEndpoint(one.manage, id);
  await one.couriers.beat();
  release.resolve();
  await expect.poll(() => one.couriers.count).toBe(0);
  expect(sequences(shop)).toEqual([1]);
});

test("a receiver that asks to be left alone is, for at most an hour, also by what it was to be sent at that moment", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  shop.answer(({ sequence }, response) =>
    response.writeHead(sequence === 1 ? 204 : 429, { "retry-after": "9".repeat(400) }).end(),
  );
  add(100);
  const restS = async () => {
    const [row] = await database.ownerSql<{ s: number | null }[]>`
      select extract(epoch from rests_until - now())::float8 as s from endpoints where id = ${id}`;
    return row?.s ?? 0;
  };
  await expect.poll(restS).toBeGreaterThan(3_500);
  expect(await restS()).toBeLessThanOrEqual(3_600);
  // Some were under way.
  expect(shop.received.length).toBeLessThan(20);
  expect((await getEndpoint(one.manage, id)).waiting).toBe(99);
  shop.status(204);
  await endRest();
  await expect.poll(() => new Set(sequences(shop)).size).toBe(100);
  await expect.poll(restS).toBe(0);
});

test("who asks to be left alone each time is given up as others are", async () => {
  const [shop, one] = [await receiver(), await replica()];
  shop.answer((_, response) => response.writeHead(503, { "retry-after": "3600" }).end());
  const { id } = await endpointAt(shop, one);
  add(1);
  await expect.poll(async () => (await getEndpoint(one.manage, id)).failingSince).not.toBeNull();
  await database.ownerSql`update endpoints set failing_since = now() - interval '73 hours'`;
  await endRest();
  await endPauses();
  await expect.poll(() => getEndpoint(one.manage, id)).toMatchObject({ pausedReason: "failing" });
});

test("an endpoint that fails for three days is paused, which is said; active again, it goes on where it was", async () => {
  const [shop, one] = [await receiver(), await replica()];
  shop.status(500);
  const { id } = await endpointAt(shop, one);
  add(1);
  await expect.poll(async () => (await getEndpoint(one.manage, id)).failingSince).not.toBeNull();
  await database.ownerSql`update endpoints set failing_since = now() - interval '73 hours'`;
  await endRest();
  await endPauses();
  await expect
    .poll(() => getEndpoint(one.manage, id))
    .toMatchObject({ status: "paused", pausedReason: "failing" });
  const told = { events: [] as object[], owners: [] as object[] };
  const tell = {
    sql: database.sql,
    recorder: { recordEvent: async (event: object) => void told.events.push(event) },
    notifyOwner: async (pause: object) => void told.owners.push(pause),
  };
  const away = { ...tell, notifyOwner: () => Promise.reject(new Error("away")) };
  await expect(tellPauses(away)).rejects.toThrow("away");
  await tellPauses(tell);
  await tellPauses(tell);
  expect(told.owners).toMatchObject([{ id, ownerId: OWNER, name: "shop", reason: "failing" }]);
  expect(told.events).toMatchObject([
    { action: "webhook.paused", resource: id, reason: "failing" },
    told.events[0] ?? {},
  ]);
  shop.received.length = 0;
  shop.status(200);
  add(2);
  await expect.poll(() => one.events.tip).toEqual({ 0: 3 });
  expect(shop.received).toEqual([]);
  await changeEndpoint(one.manage, id, { status: "active" });
  await expect.poll(() => sequences(shop).toSorted()).toEqual([1, 2, 3]);
});

test("an endpoint that says 410 is paused at once, and a temporary one is deleted", async () => {
  const [shop, one] = [await receiver(), await replica()];
  shop.status(410);
  const [{ id }, { id: temporary }] = [
    await endpointAt(shop, one),
    await endpointAt(shop, one, { isTemporary: true }),
  ];
  add(1);
  await expect
    .poll(() => getEndpoint(one.manage, id))
    .toMatchObject({ status: "paused", pausedReason: "gone" });
  await expect
    .poll(() => getEndpoint(one.manage, temporary).catch(({ code }: { code: string }) => code))
    .toBe("not_found");
});

test("a 410 from its former address does not delete a temporary webhook that was moved meanwhile", async () => {
  const [shop, moved, one] = [await receiver(), await receiver(), await replica()];
  const release = Promise.withResolvers<void>();
  shop.answer(async (_, response) => {
    await release.promise;
    response.writeHead(410).end();
  });
  const { id } = await endpointAt(shop, one, { isTemporary: true });
  add(1);
  await expect.poll(() => shop.received).toHaveLength(1);
  await changeEndpoint(one.manage, id, { url: moved.url });
  release.resolve();
  await expect.poll(() => sequences(moved)).toEqual([1]);
});

test("during a rotation both secrets sign, and then the new one alone", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id, secret: former } = await endpointAt(shop, one);
  const { secret, endpoint } = await rotateSecret(one.manage, id, 24);
  expect(endpoint.formerSecretUntil?.getTime()).toBeGreaterThan(Date.now() + 86_000_000);
  // A courier that began before it signs with the former secret for the moment.
  await expect.poll(() => sendTest(one.manage, id)).toMatchObject({ isDelivered: true });
  const signedBy = ({ body, headers }: { body: string; headers: Record<string, string> }) =>
    [former, secret].map((each) => {
      try {
        return Boolean(new Webhook(each).verify(body, headers));
      } catch {
        return false;
      }
    });
  const next = async () => {
    shop.received.length = 0;
    add(1);
    await expect.poll(() => shop.received.length).toBeGreaterThan(0);
    return signedBy(shop.received.at(-1) as Receiver["received"][number]);
  };
  await expect.poll(next).toEqual([true, true]);
  // Another one would end the former secret before its time.
  await expect(rotateSecret(one.manage, id, 1)).rejects.toMatchObject({ code: "conflict" });
  expect(await next()).toEqual([true, true]);
  await database.ownerSql`update endpoints set former_secret_until = now() - interval '1 second', version = version + 1`;
  await expect.poll(next).toEqual([false, true]);
  const third = await rotateSecret(one.manage, id, 1);
  const fourth = await rotateSecret(one.manage, id, 0);
  expect(third.endpoint.formerSecretUntil).not.toBeNull();
  expect(fourth.endpoint.formerSecretUntil).toBeNull();
});

test("after a change of the key, the secrets are encrypted with the new one, and what is sent stays signed", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id, secret } = await endpointAt(shop, one);
  await rotateSecret(one.manage, id, 24);
  const newer = newKey();
  await expect(renewEncryptions({ sql: database.sql, keys: [newer] })).rejects.toThrow("is not configured");
  await renewEncryptions({ sql: database.sql, keys: [newer, ...keys] });
  const after = { ...one.manage, keys: [newer] as const };
  expect(await sendTest(after, id)).toMatchObject({ isDelivered: true });
  const { body, headers } = shop.received.at(-1) as Receiver["received"][number];
  new Webhook(secret).verify(body, headers);
});

test("a replay sends again from a place on, in order, and lists each event once", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  const resource = randomUUID();
  add(5, { resource });
  const listed = async () => (await deliveriesOf(one, id)).map(({ sequence }) => sequence);
  // A replay ends what a courier has not stored yet.
  await expect.poll(listed).toEqual([5, 4, 3, 2, 1]);
  expect(sequences(shop)).toEqual([1, 2, 3, 4, 5]);
  await replayEvents(one.manage, id, [{ log: 0, sequence: 3 }]);
  await expect.poll(() => sequences(shop)).toEqual([1, 2, 3, 4, 5, 3, 4, 5]);
  expect(await listed()).toEqual([5, 4, 3, 2, 1]);
  for (const from of [[], [{ log: 0, sequence: 7 }], [{ log: 0, sequence: 0 }], [{ log: 3, sequence: 1 }]]) {
    await expect(replayEvents(one.manage, id, from)).rejects.toMatchObject({ code: "validation_failed" });
  }
});

test("replicas share the endpoints; what one leaves at its stop, or by its death, another takes, and nothing is lost", async () => {
  const [shop, one, two] = [await receiver(), await replica(), await replica()];
  for (const _endpoint of upTo(4)) await endpointAt(shop, one);
  await expect.poll(() => [one.couriers.count, two.couriers.count]).toEqual([2, 2]);
  add(10);
  await expect.poll(() => shop.received).toHaveLength(40);
  await one.freeze();
  await database.ownerSql`update endpoints set leased_until = now() where id in (select id from endpoints order by id limit 2)`;
  await database.ownerSql`update replicas set seen_at = now() - interval '1 minute'`;
  await expect.poll(() => two.couriers.count).toBe(4);
  add(10);
  await expect.poll(() => new Set(shop.received.map(({ sequence }) => sequence)).size).toBe(20);
  await expect.poll(() => shop.received.length).toBeGreaterThanOrEqual(80);
});

test("a replica whose clock is wrong takes no endpoint, and shows for how long; another serves it", async () => {
  const [shop, one] = [await receiver(), startReplica({ sql: database.sql, logs, keys })];
  replicas.push(one);
  await one.events.read();
  await endpointAt(shop, one);
  one.clock.isWrong = true;
  await expect(one.couriers.beat()).rejects.toMatchObject({ code: "service_unavailable" });
  expect(one.couriers.count).toBe(0);
  const two = await replica();
  add(3);
  await expect.poll(() => sequences(shop)).toEqual(upTo(3));
  expect(one.couriers.lagS).toBeGreaterThan(two.couriers.lagS);
  one.clock.isWrong = false;
  const lateS = one.couriers.lagS;
  await one.couriers.beat();
  expect(one.couriers.lagS).toBeLessThan(lateS);
});

test("a courier whose lease has ended sends nothing more and stores nothing: its successor does", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  add(1);
  await expect.poll(async () => (await deliveriesOf(one, id)).length).toBe(1);
  await one.freeze();
  add(5);
  await one.events.read(); // It is told of them.
  await database.ownerSql`update endpoints set leased_until = now()`;
  await database.ownerSql`delete from replicas`;
  const two = await replica();
  await expect.poll(async () => (await deliveriesOf(two, id)).length).toBe(6);
  expect(sequences(shop).toSorted()).toEqual(upTo(6));
  expect([one.attempts.length, two.attempts.length]).toEqual([1, 5]);
});

test("a batch under way at another replica's begin is not stored by the first one", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  const release = Promise.withResolvers<void>();
  shop.answer(async (_, response) => {
    await release.promise;
    response.writeHead(200).end();
  });
  add(1);
  await expect.poll(() => shop.received).toHaveLength(1);
  const other = randomUUID();
  await database.ownerSql`update endpoints set lease_holder = ${other}, leased_until = now() + interval '1 minute'`;
  release.resolve();
  await expect.poll(() => one.couriers.count).toBe(0);
  expect([one.attempts.length, await deliveriesOf(one, id)]).toEqual([1, []]);
});

test("after a change of its address events go there, and after its end nowhere", async () => {
  const [shop, moved, one] = [await receiver(), await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  add(1);
  await expect.poll(() => shop.received).toHaveLength(1);
  await changeEndpoint(one.manage, id, { url: moved.url });
  const arrived = () => {
    add(1);
    return moved.received.length;
  };
  await expect.poll(arrived).toBeGreaterThan(0);
  await deleteEndpoint(one.manage, id);
  await expect.poll(() => one.couriers.count).toBe(0);
});

test("failures and the rest of a former address do not count at the new one: what waits is sent there at once", async () => {
  const [shop, moved, one] = [await receiver(), await receiver(), await replica()];
  shop.answer((_, response) => response.writeHead(429, { "retry-after": "3600" }).end());
  const { id } = await endpointAt(shop, one);
  add(1);
  await expect.poll(async () => (await getEndpoint(one.manage, id)).waiting).toBe(1);
  await database.ownerSql`update deliveries set next_attempt_at = now() + interval '20 hours'`;
  const failingSince = expect.any(Date);
  expect(await changeEndpoint(one.manage, id, { url: shop.url })).toMatchObject({ failingSince });
  expect(await changeEndpoint(one.manage, id, { url: moved.url })).toMatchObject({ failingSince: null });
  await expect.poll(() => sequences(moved)).toEqual([1]);
});

test.each<[string, Parameters<Receiver["answer"]>[0], object]>([
  [
    "a redirect to an internal address",
    (_, response) => response.writeHead(307, { location: "http://127.0.0.1:1/" }).end(),
    { problem: "redirect" },
  ],
  [
    "an endless answer",
    (_, response) => void setInterval(() => response.write(Buffer.alloc(16_384)), 1).unref(),
    { problem: "too_long" },
  ],
  [
    "a small answer that unpacks to 64 MiB",
    (_, response) => response.writeHead(200, { "content-encoding": "gzip" }).end(BOMB),
    { isDelivered: true },
  ],
  ["a closed connection", (_, response) => response.destroy(), { problem: "unreachable" }],
  ["no answer", () => undefined, { problem: "too_slow" }],
])("%s counts as what it is", async (_name, answer, result) => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  shop.answer(answer);
  expect(await sendTest(one.manage, id)).toMatchObject(result);
});

test.each([
  ["a name with NUL", { name: "a\u0000b" }, "name"],
  ["a name of two lines", { name: "a\nb" }, "name"],
  ["an address with NUL", { url: "http://127.0.0.1:1/\u0000" }, "url"],
  ["a type with NUL", { types: ["gatehouse.\u0000*"] }, "types"],
])("%s is refused", async (_what, change, field) => {
  const one = await replica();
  const wanted = { name: "shop", url: "http://127.0.0.1:1/", types: ["gatehouse.*"], ...change };
  await expect(
    createEndpoint(one.manage, { ...wanted, ownerId: OWNER, isTemporary: false }),
  ).rejects.toMatchObject({
    code: "validation_failed",
    fields: [expect.objectContaining({ field })],
  });
});

test("while old deliveries cannot be removed, none is sent again for that", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  await database.ownerSql`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'not now'; end $$`;
  await database.ownerSql`create trigger refuse before delete on deliveries execute function refuse()`;
  add(1_600);
  await expect
    .poll(async () => (await database.ownerSql`select from deliveries where endpoint_id = ${id}`).length)
    .toBe(1_600);
  expect(sequences(shop)).toHaveLength(1_600);
});

test("of what is done the last thousand are kept", async () => {
  const [shop, one] = [await receiver(), await replica()];
  const { id } = await endpointAt(shop, one);
  add(2_600);
  await expect.poll(() => new Set(sequences(shop)).size).toBe(2_600);
  await expect
    .poll(async () => (await database.ownerSql`select from deliveries where endpoint_id = ${id}`).length)
    .toBeLessThanOrEqual(1_700);
});
