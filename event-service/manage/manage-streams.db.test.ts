import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { newKey, type Receiver, startReceiver, startReplica } from "../delivery/replica.fixture.ts";
import { tellPauses } from "../delivery/tell-pauses.ts";
import { headerIn, secretsInUse } from "../endpoints/endpoint.ts";
import { movePlaces } from "../endpoints/stream-store.ts";
import { LogsInMemory } from "../stream/event.fixture.ts";
import { SESSION_REVOKED, SIGNAL_TYPES } from "../stream/signal.ts";
import {
  changeEndpoint,
  createEndpoint,
  getEndpoint,
  listDeliveries,
  replayEvents,
  rotateSecret,
  sendTest,
} from "./manage-endpoints.ts";
import {
  changeStream,
  createStream,
  deleteStream,
  getStream,
  type Poll,
  pauseForbiddenStreams,
  pollStream,
  setStreamStatus,
  verifyStream,
} from "./manage-streams.ts";

let database: TestDatabase;
let logs: LogsInMemory;
let replicas: Replica[];
let receivers: Receiver[];
let client: string;
const keys = [newKey()] as const;

beforeEach(async () => {
  database = await createTestDatabase("event-service");
  logs = new LogsInMemory();
  replicas = [];
  receivers = [];
  client = randomUUID();
});

afterEach(async () => {
  await Promise.all(replicas.map((replica) => replica.stop()));
  for (const receiver of receivers) receiver.close();
  await database.drop();
});

function newReplica() {
  const made = startReplica({ sql: database.sql, logs, keys });
  const waitingPolls = new Map<string, () => void>();
  return { ...made, manage: { ...made.manage, waitingPolls } };
}

type Replica = ReturnType<typeof newReplica>;

async function replica(): Promise<Replica> {
  const started = newReplica();
  replicas.push(started);
  await started.start();
  return started;
}

async function receiver(): Promise<Receiver> {
  const started = await startReceiver();
  receivers.push(started);
  return started;
}

/** @returns ids of the entries. */
function end(...reasons: string[]): string[] {
  const userId = randomUUID();
  const actor = { userId, role: "", sessionId: randomUUID() };
  return logs
    .add(...reasons.map((reason) => ({ action: "session.ended", resource: userId, actor, reason })))
    .map(({ id }) => id);
}

/** A courier notices a change a moment later, and may have sent something meanwhile. */
const untilNoneSends = ({ couriers }: Replica) => expect.poll(() => couriers.count).toBe(0);

const jtis = ({ received }: Receiver) => received.map(({ body }) => JSON.parse(body).jti as string);
/** What it was told of the status of its stream. */
const statuses = ({ received }: Receiver) =>
  received.flatMap(({ body }) => (JSON.parse(body).event.status as string | undefined) ?? []);
/** The status, or the `jti`. */
const told = ({ received }: Receiver) =>
  received.map(({ body }) => (JSON.parse(body).event.status ?? JSON.parse(body).jti) as string);
const at = (stream: { id: string }) => ({ clientId: client, streamId: stream.id });
const pollOf = (poll: Partial<Poll> = {}): Poll => ({
  ...{ maxEvents: 10, returnImmediately: true, acknowledged: [], refused: [] },
  ...poll,
});

async function poll({ manage }: Replica, stream: { id: string }, wanted: Partial<Poll> = {}) {
  const { tokens, moreAvailable } = await pollStream(manage, at(stream), pollOf(wanted));
  return { ids: tokens.map(({ jti }) => jti), tokens, moreAvailable };
}

test("a signal is pushed to the receiver, with its header, for the client as audience", async () => {
  const [one, shop] = [await replica(), await receiver()];
  await createStream(one.manage, client, {
    delivery: { pushUrl: shop.url, authorizationHeader: "Bearer of-the-receiver" },
  });
  const [jti] = end("logout");
  await expect.poll(() => jtis(shop)).toEqual([jti]);
  const { headers, body } = shop.received[0] ?? { headers: {}, body: "" };
  expect(headers).toMatchObject({
    ...{ "content-type": "application/secevent+jwt", accept: "application/json" },
    authorization: "Bearer of-the-receiver",
  });
  expect(JSON.parse(body)).toMatchObject({ aud: client, type: SESSION_REVOKED });
});

test("only what the receiver asked for is told, and a change counts", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const delivery = { pushUrl: shop.url };
  const stream = await createStream(one.manage, client, {
    delivery,
    eventsRequested: [SIGNAL_TYPES[2], "urn:other"],
  });
  end("logout");
  const [changed] = logs.add({ action: "user.password_changed" });
  await expect.poll(() => jtis(shop)).toEqual([changed?.id]);
  await changeStream(one.manage, at(stream), { eventsRequested: [SESSION_REVOKED], replaces: false });
  expect(await getStream(one.manage, { clientId: client, streamId: "" })).toMatchObject({
    url: shop.url,
    types: [SESSION_REVOKED],
  });
  // As soon as a courier has noticed.
  await expect
    .poll(() => {
      end("logout");
      return jtis(shop).length;
    })
    .toBeGreaterThan(1);
});

test("a header is sent to the address that it was given for, and to no other", async () => {
  const [one, shop, other] = [await replica(), await receiver(), await receiver()];
  const delivery = { pushUrl: shop.url, authorizationHeader: "Bearer of-the-receiver" };
  const stream = await createStream(one.manage, client, { delivery });
  const headerOf = async (change: object) => {
    const { id, ...rest } = await changeStream(one.manage, at(stream), { ...change, replaces: false });
    return headerIn(secretsInUse(keys, id, rest, new Date())[0] ?? "");
  };
  expect(await headerOf({ delivery: { pushUrl: shop.url }, description: "d" })).toBe(
    "Bearer of-the-receiver",
  );
  expect(await headerOf({ delivery: { pushUrl: other.url } })).toBe("");
});

test("failures and the rest of a former address do not count at the new one: what waits is pushed there at once", async () => {
  const [one, shop, moved] = [await replica(), await receiver(), await receiver()];
  shop.answer((_, response) => response.writeHead(429, { "retry-after": "3600" }).end());
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  const [jti] = end("logout");
  await expect.poll(async () => (await getEndpoint(one.manage, stream.id)).waiting).toBe(1);
  await database.ownerSql`update deliveries set next_attempt_at = now() + interval '20 hours'`;
  const change = (pushUrl: string) =>
    changeStream(one.manage, at(stream), { delivery: { pushUrl }, replaces: false });
  expect(await change(shop.url)).toMatchObject({ failures: 1, restsUntil: expect.any(Date) });
  expect(await change(moved.url)).toMatchObject({ failures: 0, failingSince: null, restsUntil: null });
  await expect.poll(() => jtis(moved)).toEqual([jti]);
});

test("a stream is not put to the beginning of the log by a replica that has not read it yet", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const fresh = newReplica();
  const act = setStreamStatus(fresh.manage, at(stream), "disabled");
  await expect(act).rejects.toMatchObject({ code: "service_unavailable" });
});

test("while nobody signs, nothing is lost, and it is not the receiver's failure", async () => {
  const [one, shop] = [await replica(), await receiver()];
  one.tokenService.isAway = true;
  await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  const reads = logs.reads;
  const [jti] = end("logout");
  await expect.poll(() => logs.reads).toBeGreaterThan(reads + 20);
  one.tokenService.isAway = false;
  await expect.poll(() => jtis(shop)).toEqual([jti]);
  await expect.poll(() => one.attempts.map(({ problem }) => problem)).toEqual([""]);
});

test("a signal that nobody signs ends its batch: what was delivered is not sent again, and the others are sent later", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const { id } = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  let [asked, isAway] = [0, true];
  const ask = () => {
    asked += 1;
    return asked >= 40 && isAway;
  };
  Object.defineProperty(one.tokenService, "isAway", { get: ask });
  // One batch. Each second of a slow machine 16 more are asked for.
  const sent = Array.from({ length: 190 }, () => end("logout")).flat();
  const states = async () =>
    (await listDeliveries(one.manage, id, { cursor: "", limit: 100 })).deliveries.map(
      ({ state, attempts }) => `${state} ${attempts}`,
    );
  await expect.poll(states).toHaveLength(100);
  expect(asked).toBeLessThan(190);
  isAway = false;
  await expect.poll(states).toEqual(Array.from({ length: 100 }, () => "delivered 1"));
  await expect.poll(async () => (await getEndpoint(one.manage, id)).waiting).toBe(0);
  expect(jtis(shop).toSorted()).toEqual(sent.toSorted());
});

test("what is polled comes again until it is acknowledged, in the order of the log", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const [first, second, third] = end("logout", "all", "session_limit");
  await expect.poll(async () => (await poll(one, stream)).ids).toEqual([first, second, third]);
  expect(await poll(one, stream, { maxEvents: 2 })).toMatchObject({
    ids: [first, second],
    moreAvailable: true,
  });
  const left = await poll(one, stream, { acknowledged: [first ?? ""], refused: [second ?? ""] });
  expect(left).toMatchObject({ ids: [third], moreAvailable: false });
  expect((await poll(one, stream, { maxEvents: 0, acknowledged: [third ?? ""] })).ids).toEqual([]);
  expect((await poll(one, stream)).ids).toEqual([]);
  const { deliveries } = await listDeliveries(one.manage, stream.id, { cursor: "", limit: 10 });
  expect(deliveries.map(({ state, problem }) => [state, problem])).toEqual([
    ["delivered", ""],
    ["given_up", "refused"],
    ["delivered", ""],
  ]);
});

test("a poll settles as many as may wait, and no more", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const ids = Array.from({ length: 1_000 }, () => randomUUID());
  expect((await poll(one, stream, { acknowledged: ids, refused: ids })).ids).toEqual([]);
  for (const [field, wanted] of [
    ["ack", { acknowledged: [...ids, randomUUID()] }],
    ["setErrs", { refused: [...ids, randomUUID()] }],
  ] as const)
    await expect(poll(one, stream, wanted)).rejects.toMatchObject({ fields: [{ field }] });
});

test("polls at two replicas at the same moment lose nothing and invent nothing", async () => {
  const [one, other] = [await replica(), await replica()];
  const stream = await createStream(one.manage, client, {});
  const told = new Set<string>();
  const sent = Array.from({ length: 30 }, () => end("logout", "all")).flat();
  await expect
    .poll(async () => {
      const polls = [one, other, one, other].map((each) => poll(each, stream, { maxEvents: 7 }));
      const ids = (await Promise.all(polls)).flatMap(({ ids }) => ids);
      for (const id of ids) told.add(id);
      await poll(one, stream, { maxEvents: 0, acknowledged: [...new Set(ids)] });
      return [...told].toSorted();
    })
    .toEqual(sent.toSorted());
  expect((await poll(other, stream)).ids).toEqual([]);
});

test("a poll that read the log before another one went on moves nothing back", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const move = (from: number, to: number) =>
    transaction(database.sql, (tx) => movePlaces(tx, stream.id, { from: { 0: from }, to: { 0: to } }));
  expect([await move(0, 7), await move(0, 3)]).toEqual([true, false]);
  expect(await getStream(one.manage, at(stream))).toMatchObject({ places: { 0: 7 } });
});

test("a poll that waits is answered when something comes", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  await expect
    .poll(async () => {
      const answer = poll(one, stream, { returnImmediately: false });
      const [jti] = end("logout");
      const { ids } = await answer;
      return ids.includes(jti ?? "");
    })
    .toBe(true);
});

const waitingPoll = async ({ manage }: Replica, stream: { id: string }, whose = client) => {
  const answer = pollStream(
    manage,
    { clientId: whose, streamId: stream.id },
    pollOf({ returnImmediately: false }),
  );
  await expect.poll(() => manage.waitingPolls.has(stream.id)).toBe(true);
  return answer.then(({ tokens }) => tokens);
};

test("a poll that waits asks the database nothing while the log grows by what its stream does not want", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, { eventsRequested: [SESSION_REVOKED] });
  let statements = 0;
  const sql = new Proxy(one.manage.sql, {
    apply(target, self, given) {
      statements += 1;
      return Reflect.apply(target, self, given);
    },
  });
  let isOver = false;
  const answer = pollStream({ ...one.manage, sql }, at(stream), pollOf({ returnImmediately: false })).finally(
    () => {
      isOver = true;
    },
  );
  await expect
    .poll(() => {
      logs.add({ action: "user.password_changed" });
      return isOver;
    })
    .toBe(true);
  expect((await answer).tokens).toEqual([]);
  // Some are parts of others.
  expect(statements).toBeLessThan(50);
  const { places } = await getStream(one.manage, at(stream));
  expect(places[0]).toBeGreaterThan(10);
});

test("a poll that comes while another one of its stream waits is answered at once", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const first = waitingPoll(one, stream);
  await expect.poll(() => one.manage.waitingPolls.size).toBe(1);
  expect((await poll(one, stream, { returnImmediately: false })).ids).toEqual([]);
  const [jti] = end("logout");
  expect((await first).map((token) => token.jti)).toEqual([jti]);
  const [last] = end("logout");
  await poll(one, stream, { acknowledged: [jti ?? ""] });
  await expect.poll(async () => (await poll(one, stream, { returnImmediately: false })).ids).toEqual([last]);
  expect(one.manage.waitingPolls.size).toBe(0);
});

test("a poll that waits is answered with a verification, before another one that has waited longer", async () => {
  const [one, other] = [await replica(), randomUUID()];
  const stream = await createStream(one.manage, client, {});
  const quiet = waitingPoll(one, await createStream(one.manage, other, {}), other);
  await expect.poll(() => one.manage.waitingPolls.size).toBe(1);
  const asked = waitingPoll(one, stream);
  await expect.poll(() => one.manage.waitingPolls.size).toBe(2);
  await verifyStream(one.manage, at(stream), "state-1");
  const [token] = await Promise.race([asked, quiet]);
  expect(JSON.parse(token?.token ?? "{}").event).toEqual({ state: "state-1" });
  await quiet;
});

test("a poll of a stream that is told nothing now waits as others do, unless its receiver asks not to", async () => {
  const one = await replica();
  const waited = await Promise.all(
    ["asked", "failing", "gone", "forbidden", "disabled"].map(async (reason) => {
      const clientId = randomUUID();
      const { id: streamId } = await createStream(one.manage, clientId, {});
      await database.ownerSql`update endpoints set status = 'paused', paused_reason = ${reason} where id = ${streamId}`;
      const startMs = performance.now();
      const { tokens } = await pollStream(
        one.manage,
        { clientId, streamId },
        pollOf({ returnImmediately: false }),
      );
      expect(tokens).toEqual([]);
      return performance.now() - startMs;
    }),
  );
  expect(Math.min(...waited)).toBeGreaterThanOrEqual(2_990);
});

test("a poll that waits while its stream is paused is answered when the receiver lets it go on", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const [jti] = end("logout");
  await expect.poll(async () => (await poll(one, stream)).ids).toEqual([jti]);
  await setStreamStatus(one.manage, at(stream), "asked");
  const answer = waitingPoll(one, stream);
  await expect.poll(() => one.manage.waitingPolls.size).toBe(1);
  await setStreamStatus(one.manage, at(stream), null);
  expect((await answer).map((token) => token.jti)).toEqual([jti]);
});

test("what happens while a stream is paused is told later, and while it is disabled never", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  await setStreamStatus(one.manage, at(stream), "disabled");
  await untilNoneSends(one);
  const [lost] = end("logout");
  await one.events.read();
  await setStreamStatus(one.manage, at(stream), null);
  await setStreamStatus(one.manage, at(stream), "asked");
  await untilNoneSends(one);
  const [kept] = end("logout");
  await one.events.read();
  expect(await getStream(one.manage, { clientId: client, streamId: "" })).toMatchObject({
    status: "paused",
    pausedReason: "asked",
  });
  await setStreamStatus(one.manage, at(stream), null);
  await expect.poll(() => jtis(shop)).toContain(kept);
  expect(jtis(shop)).not.toContain(lost);
});

test("what waits for its next attempt is sent at once when the receiver makes its stream active again", async () => {
  const [one, shop] = [await replica(), await receiver()];
  shop.status(500);
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  const [jti] = end("logout");
  const waiting = async () => (await getEndpoint(one.manage, stream.id)).waiting;
  await expect.poll(waiting).toBe(1);
  await setStreamStatus(one.manage, at(stream), "asked");
  await untilNoneSends(one);
  await database.ownerSql`update deliveries set next_attempt_at = now() + interval '20 hours'`;
  shop.received.length = 0;
  shop.status(204);
  await setStreamStatus(one.manage, at(stream), null);
  await expect.poll(() => jtis(shop)).toEqual([jti]);
});

test("nothing is polled from a stream that is paused", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const [jti] = end("logout");
  await expect.poll(async () => (await poll(one, stream)).ids).toEqual([jti]);
  await setStreamStatus(one.manage, at(stream), "asked");
  expect((await poll(one, stream)).ids).toEqual([]);
  await setStreamStatus(one.manage, at(stream), null);
  expect((await poll(one, stream)).ids).toEqual([jti]);
});

test.each(["push", "poll"] as const)(
  "a receiver that asks whether its stream works is sent what it gave (%s)",
  async (kind) => {
    const [one, shop] = [await replica(), await receiver()];
    const stream = await createStream(
      one.manage,
      client,
      kind === "push" ? { delivery: { pushUrl: shop.url } } : {},
    );
    await verifyStream(one.manage, at(stream), "state-1");
    const bodies = async () =>
      kind === "push"
        ? shop.received.map(({ body }) => body)
        : (await poll(one, stream)).tokens.map(({ token }) => token);
    await expect
      .poll(async () => (await bodies()).map((body) => JSON.parse(body)))
      .toEqual([
        expect.objectContaining({
          ...{ aud: client, userId: "", streamId: stream.id, event: { state: "state-1" } },
          type: "https://schemas.openid.net/secevent/ssf/event-type/verification",
        }),
      ]);
  },
);

test("a verification does not end what is being pushed: it is not sent again", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const { id } = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  const release = Promise.withResolvers<void>();
  shop.answer(async (_, response) => {
    await release.promise;
    response.writeHead(202).end();
  });
  const [jti] = end("logout");
  await expect.poll(() => jtis(shop)).toEqual([jti]);
  await verifyStream(one.manage, at({ id }), "state-1");
  const reads = logs.reads;
  await expect.poll(() => logs.reads).toBeGreaterThan(reads + 5);
  release.resolve();
  const states = async () =>
    (await listDeliveries(one.manage, id, { cursor: "", limit: 10 })).deliveries.map(({ state }) => state);
  await expect.poll(states).toEqual(["delivered", "delivered"]);
  expect(jtis(shop)).toEqual([jti, expect.any(String)]);
});

test("of verifications that nobody takes, one waits", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  for (const state of ["state-1", "state-2", "state-3"]) await verifyStream(one.manage, at(stream), state);
  const { tokens } = await poll(one, stream);
  expect(tokens.map(({ token }) => JSON.parse(token).event)).toEqual([{ state: "state-3" }]);
});

test("a client has one stream, and another client has no part in it", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  await expect(createStream(one.manage, client, {})).rejects.toMatchObject({ code: "conflict" });
  const stranger = { clientId: randomUUID(), streamId: stream.id };
  await createStream(one.manage, stranger.clientId, {});
  for (const act of [
    () => getStream(one.manage, stranger),
    () => pollStream(one.manage, stranger, pollOf()),
    () => deleteStream(one.manage, stranger),
    () => setStreamStatus(one.manage, stranger, "disabled"),
    () => verifyStream(one.manage, stranger, ""),
    () => changeStream(one.manage, stranger, { description: "mine", replaces: false }),
  ])
    await expect(act()).rejects.toMatchObject({ code: "not_found" });
  await deleteStream(one.manage, at(stream));
  await expect(getStream(one.manage, { clientId: client, streamId: "" })).rejects.toMatchObject({
    code: "not_found",
  });
});

test("a client that lost its right is told nothing more, until it has it again and goes on", async () => {
  const [one, shop, other] = [await replica(), await receiver(), randomUUID()];
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  await createStream(one.manage, other, {});
  const check = (...allowed: string[]) =>
    pauseForbiddenStreams({ ...one.manage, filterReceivers: async () => allowed });
  const away = () => Promise.reject(new Error("away"));
  await expect(pauseForbiddenStreams({ ...one.manage, filterReceivers: away })).rejects.toThrow("away");
  await check(client, other);
  expect(await getStream(one.manage, at(stream))).toMatchObject({ status: "active" });
  await check(other);
  expect(await getStream(one.manage, at(stream))).toMatchObject({ pausedReason: "forbidden" });
  expect(await getStream(one.manage, { clientId: other, streamId: "" })).toMatchObject({ status: "active" });
  const recorded: object[] = [];
  const tell = {
    sql: database.sql,
    recorder: { recordEvent: async (event: object) => void recorded.push(event) },
    notifyOwner: () => Promise.reject(new Error("it has none")),
  };
  for (const _time of [1, 2]) await tellPauses(tell);
  expect(recorded).toMatchObject([{ action: "webhook.paused", resource: stream.id, reason: "forbidden" }]);
  await untilNoneSends(one);
  const [jti] = end("logout");
  await one.events.read();
  await setStreamStatus(one.manage, at(stream), null);
  await expect.poll(() => jtis(shop)).toEqual([jti]);
});

test("streams take no room of webhooks, and those whose clients have lost their right none of others", async () => {
  const one = await replica();
  for (let n = 0; n < 100; n += 1) await createStream(one.manage, randomUUID(), {});
  await expect(createStream(one.manage, client, {})).rejects.toMatchObject({ code: "conflict" });
  const wanted = {
    name: "shop",
    url: "http://127.0.0.1:1/",
    types: ["gatehouse.*"],
    ownerId: "",
    isTemporary: false,
  };
  expect(await createEndpoint(one.manage, wanted)).toMatchObject({ endpoint: { kind: "webhook" } });
  one.identityService.filterReceivers = async (ids) => ids.slice(1);
  await pauseForbiddenStreams(one.manage);
  await createStream(one.manage, client, {});
  await expect(createStream(one.manage, randomUUID(), {})).rejects.toMatchObject({ code: "conflict" });
});

test("a client's right is asked also when more streams are active than are asked about at once", async () => {
  const one = await replica();
  for (let n = 0; n < 100; n += 1) await createStream(one.manage, randomUUID(), {});
  let forbidden: readonly string[] = [];
  one.identityService.filterReceivers = async (ids) => ids.filter((id) => !forbidden.includes(id));
  const all = await database.ownerSql<{ id: string; clientId: string }[]>`
    select id, client_id as "clientId" from endpoints`;
  const [first = { id: "", clientId: "" }, lost = first, other = first] = all;
  forbidden = [first.clientId];
  await pauseForbiddenStreams(one.manage);
  await createStream(one.manage, client, {});
  // The first client may receive signals again. With its stream, more streams are active than are asked about at a time.
  forbidden = [];
  await setStreamStatus(one.manage, { clientId: first.clientId, streamId: first.id }, null);
  forbidden = [lost.clientId, client];
  one.identityService.filterReceivers = async (ids) => {
    if (ids.length > 100) throw new DomainError("validation_failed");
    return ids.filter((id) => !forbidden.includes(id));
  };
  await pauseForbiddenStreams(one.manage);
  const stateOf = async (clientId: string) =>
    (await getStream(one.manage, { clientId, streamId: "" })).pausedReason;
  expect(await Promise.all([lost.clientId, client, first.clientId, other.clientId].map(stateOf))).toEqual([
    "forbidden",
    "forbidden",
    null,
    null,
  ]);
});

test.each([
  ["an internal address", { delivery: { pushUrl: "https://10.0.0.1/" } }, "delivery.endpoint_url"],
  [
    "an address with a user",
    { delivery: { pushUrl: "https://ada:secret@example.com/" } },
    "delivery.endpoint_url",
  ],
  [
    "a header of two lines",
    { delivery: { pushUrl: "", authorizationHeader: "a\r\nb: c" } },
    "delivery.authorization_header",
  ],
  [
    "too many types",
    { eventsRequested: Array.from({ length: 51 }, (_, n) => `urn:${n}`) },
    "events_requested",
  ],
  ["a type with NUL", { eventsRequested: ["urn:\u0000"] }, "events_requested"],
  ["a description with NUL", { description: "a\u0000b" }, "description"],
  ["a long description", { description: "d".repeat(101) }, "description"],
])("%s is refused", async (_what, wanted, field) => {
  const one = await replica();
  await expect(createStream(one.manage, client, wanted)).rejects.toMatchObject({
    code: "validation_failed",
    fields: [expect.objectContaining({ field })],
  });
});

test("an administrator pauses and replays a stream, and changes nothing that is its receiver's", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  for (const act of [
    () => changeEndpoint(one.manage, stream.id, { url: shop.url }),
    () => rotateSecret(one.manage, stream.id, 0),
    () => sendTest(one.manage, stream.id),
  ])
    await expect(act()).rejects.toMatchObject({ code: "conflict" });
  expect(await changeEndpoint(one.manage, stream.id, { status: "paused" })).toMatchObject({ kind: "push" });
  await expect.poll(() => statuses(shop)).toEqual(["paused"]);
  await untilNoneSends(one);
  const [jti] = end("logout");
  await one.events.read();
  await changeEndpoint(one.manage, stream.id, { status: "active" });
  await expect.poll(() => told(shop)).toEqual(["paused", "enabled", jti]);
  await replayEvents(one.manage, stream.id, [{ log: 0, sequence: 1 }]);
  await expect.poll(() => told(shop)).toEqual(["paused", "enabled", jti, jti]);
});

const pause = ({ manage }: Replica, { id }: { id: string }) =>
  changeEndpoint(manage, id, { status: "paused" });
const resume = ({ manage }: Replica, { id }: { id: string }) =>
  changeEndpoint(manage, id, { status: "active" });

test("a receiver that polls is told that its stream is paused, of the stream itself, and of nothing else", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  const [jti] = end("logout");
  await expect.poll(async () => (await poll(one, stream)).ids).toEqual([jti]);
  await pause(one, stream);
  const { tokens } = await poll(one, stream);
  expect(tokens.map(({ token }) => JSON.parse(token))).toEqual([
    {
      ...{ jti: tokens[0]?.jti, aud: client, userId: "", sessionId: "", streamId: stream.id },
      type: "https://schemas.openid.net/secevent/ssf/event-type/stream-updated",
      event: { status: "paused", reason: "by an administrator" },
    },
  ]);
  expect((await poll(one, stream, { acknowledged: [tokens[0]?.jti ?? ""] })).ids).toEqual([]);
  await resume(one, stream);
  expect((await poll(one, stream)).tokens.map(({ token }) => JSON.parse(token).event.status)).toEqual([
    "enabled",
    undefined,
  ]);
});

test("a receiver that is away is told of a pause when it is back, and of nothing else that waits or happens", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  const states = async () =>
    (await listDeliveries(one.manage, stream.id, { cursor: "", limit: 10 })).deliveries.map(
      ({ state, attempts }) => `${state} ${attempts}`,
    );
  shop.status(503);
  const [before] = end("logout");
  await expect.poll(states).toEqual(["waiting 1"]);
  await pause(one, stream);
  await expect.poll(states).toEqual(["waiting 1", "waiting 1"]);
  const [since] = end("logout");
  await one.events.read();
  shop.received.length = 0;
  shop.status(202);
  await database.ownerSql`update deliveries set next_attempt_at = now()`;
  await expect.poll(states).toContain("delivered 2");
  await untilNoneSends(one);
  expect(told(shop)).toEqual(["paused"]);
  expect(await getStream(one.manage, at(stream))).toMatchObject({ status: "paused", pausedReason: "asked" });
  await resume(one, stream);
  await expect.poll(() => told(shop).toSorted()).toEqual(["paused", "enabled", before, since].toSorted());
});

test("of changes of its status that nobody has told a receiver, the last one waits", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  for (const change of [pause, resume, pause]) await change(one, stream);
  const { tokens } = await poll(one, stream);
  expect(tokens.map(({ token }) => JSON.parse(token).event.status)).toEqual(["paused"]);
});

test("a receiver that is gone when it is told of a pause is not asked again", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  shop.status(410);
  await pause(one, stream);
  await expect.poll(() => getStream(one.manage, at(stream))).toMatchObject({ pausedReason: "gone" });
  await untilNoneSends(one);
  expect(statuses(shop)).toEqual(["paused"]);
});

test("what a receiver asks for itself it is not told", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  await setStreamStatus(one.manage, at(stream), "asked");
  await pause(one, stream);
  expect((await poll(one, stream)).ids).toEqual([]);
  await resume(one, stream);
  await setStreamStatus(one.manage, at(stream), null);
  await resume(one, stream);
  expect((await poll(one, stream)).ids).toEqual([]);
});

test("whose client has lost its right is not told of a pause either, and is not made active", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  one.tokenService.isAway = true;
  await pause(one, stream);
  one.identityService.filterReceivers = async () => [];
  await pauseForbiddenStreams(one.manage);
  expect(await pause(one, stream)).toMatchObject({ pausedReason: "forbidden" });
  await expect(resume(one, stream)).rejects.toMatchObject({ code: "conflict" });
  await untilNoneSends(one);
  one.tokenService.isAway = false;
  await one.couriers.beat();
  expect([one.couriers.count, shop.received]).toEqual([0, []]);
  one.identityService.filterReceivers = async (ids) => [...ids];
  await resume(one, stream);
  await expect.poll(() => statuses(shop)).toEqual(["enabled"]);
});

test("a stream that its receiver has disabled is told nothing, whatever an administrator does", async () => {
  const [one, shop] = [await replica(), await receiver()];
  const stream = await createStream(one.manage, client, { delivery: { pushUrl: shop.url } });
  await setStreamStatus(one.manage, at(stream), "disabled");
  expect(await pause(one, stream)).toMatchObject({ pausedReason: "disabled", waiting: 0 });
  await expect(resume(one, stream)).rejects.toMatchObject({ code: "conflict" });
  await untilNoneSends(one);
  expect(shop.received).toEqual([]);
});

test("a stream that its receiver disables while an administrator makes it active stays disabled", async () => {
  const one = await replica();
  const stream = await createStream(one.manage, client, {});
  await pause(one, stream);
  one.identityService.filterReceivers = async (ids) => {
    await setStreamStatus(one.manage, at(stream), "disabled");
    return [...ids];
  };
  await expect(resume(one, stream)).rejects.toMatchObject({ code: "conflict" });
  expect(await getStream(one.manage, at(stream))).toMatchObject({ pausedReason: "disabled" });
});
