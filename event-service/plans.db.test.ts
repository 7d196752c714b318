import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createPlantedDatabase,
  type PlantedDatabase,
  plantedId,
  type StoreCalls,
  storeFunctions,
} from "#tests/support/database/planted-database.ts";
import * as deliveries from "./delivery/delivery-store.ts";
import * as endpoints from "./endpoints/endpoint-store.ts";
import * as streams from "./endpoints/stream-store.ts";
import * as siem from "./siem/collector-store.ts";

const ENDPOINT = plantedId(7);
const HOLDER = plantedId(1);
const EVENT = plantedId(7_500);
const LIMIT = 10;
const now = new Date();

let database: PlantedDatabase;
beforeAll(async () => {
  database = await createPlantedDatabase("event-service", {
    large: {
      deliveries: {
        endpoint_id: `('00000000-0000-7000-8000-' || lpad(to_hex(n / 1000), 12, '0'))::uuid`,
        state: "case when n % 20 = 7 then 'waiting' else 'delivered' end",
        body: "case when n % 20 = 7 then '{}' end",
        next_attempt_at: "case when n % 20 = 7 then now() + (n - 7500) * interval '1 second' end",
      },
    },
    small: { endpoints: { rows: 30, columns: { types: "'{gatehouse.*}'", places: "'{}'" } } },
  });
});
afterAll(() => database.drop());

const state = { places: { 0: 1 }, failures: 0, failingSince: null, restsUntil: null, pausedReason: null };
const lease = { name: "otlp" as const, holder: HOLDER, leaseMs: 1_000 };
const secrets = { id: ENDPOINT, secret: Buffer.alloc(8), formerSecret: null };
const delivery = {
  ...{
    eventId: plantedId(99_999),
    log: 0,
    sequence: 1,
    type: "t",
    subject: "s",
    state: "waiting" as const,
    body: "{}",
  },
  ...{ attempts: 0, httpStatus: 0, problem: "", durationMs: 0, attemptedAt: null, nextAttemptAt: now },
};
const CALLS: StoreCalls = {
  insertEndpoint: (tx) =>
    endpoints.insertEndpoint(
      tx,
      {
        ...{
          id: plantedId(99_999),
          kind: "webhook",
          clientId: null,
          name: "n",
          url: "https://example.com",
          types: ["gatehouse.*"],
          ownerId: null,
        },
        ...{ isTemporary: false, secret: Buffer.alloc(8), places: {}, createdAt: now },
      },
      100,
    ),
  findEndpoint: (tx) => endpoints.findEndpoint(tx, ENDPOINT),
  lockEndpoint: (tx) => endpoints.lockEndpoint(tx, ENDPOINT),
  findCourierEndpoint: (tx) => endpoints.findCourierEndpoint(tx, ENDPOINT),
  selectEndpoints: (tx) => endpoints.selectEndpoints(tx, ENDPOINT, LIMIT),
  updateEndpoint: (tx) => endpoints.updateEndpoint(tx, ENDPOINT, { status: "active" }, now),
  makeWaitingDue: (tx) => endpoints.makeWaitingDue(tx, ENDPOINT),
  deleteEndpoint: (tx) => endpoints.deleteEndpoint(tx, ENDPOINT),
  replaceSecret: (tx) =>
    endpoints.replaceSecret(tx, ENDPOINT, { secret: Buffer.alloc(8), formerUntil: now, at: now }),
  putBack: (tx) => endpoints.putBack(tx, ENDPOINT, { 0: 1 }, now),
  claimEndpoints: (tx) => endpoints.claimEndpoints(tx, { holder: HOLDER, leaseMs: 1_000 }),
  releaseEndpoints: (tx) => endpoints.releaseEndpoints(tx, HOLDER),
  lockHeld: (tx) => endpoints.lockHeld(tx, { id: ENDPOINT, version: 1 }, HOLDER),
  selectSecrets: (tx) => endpoints.selectSecrets(tx),
  replaceEncrypted: (tx) => endpoints.replaceEncrypted(tx, secrets, secrets),
  selectUntoldPauses: (tx) => endpoints.selectUntoldPauses(tx, LIMIT),
  markPauseTold: (tx) => endpoints.markPauseTold(tx, ENDPOINT, now),
  updateCourierState: (tx) => endpoints.updateCourierState(tx, ENDPOINT, state),
  selectDue: (tx) => deliveries.selectDue(tx, { endpointId: ENDPOINT }, LIMIT),
  selectWaiting: (tx) => deliveries.selectWaiting(tx, { endpointId: ENDPOINT, type: "t" }, LIMIT),
  settleWaiting: (tx) => deliveries.settleWaiting(tx, ENDPOINT, { eventIds: [EVENT], problem: "" }),
  deleteWaiting: (tx) => deliveries.deleteWaiting(tx, { endpointId: ENDPOINT }),
  "deleteWaiting: of a type": (tx) => deliveries.deleteWaiting(tx, { endpointId: ENDPOINT, type: "t" }),
  replaceWaiting: (tx) =>
    deliveries.replaceWaiting(tx, ENDPOINT, { ...delivery, id: delivery.eventId, receivedAt: now }),
  findStream: (tx) => streams.findStream(tx, ENDPOINT),
  updateStream: (tx) =>
    streams.updateStream(tx, ENDPOINT, {
      // The planted ones are webhooks.
      ...{
        kind: "webhook" as "push",
        url: "https://example.com",
        types: ["t"],
        name: "n",
        secret: Buffer.alloc(8),
        at: now,
      },
    }),
  updateStreamStatus: (tx) =>
    streams.updateStreamStatus(tx, ENDPOINT, { pausedReason: "asked", places: { 0: 1 }, at: now }),
  selectReceivers: (tx) => streams.selectReceivers(tx),
  forbidStreams: (tx) => streams.forbidStreams(tx, [ENDPOINT]),
  movePlaces: (tx) => streams.movePlaces(tx, ENDPOINT, { from: { 0: 1 }, to: { 0: 2 } }),
  countWaiting: (tx) => deliveries.countWaiting(tx, [ENDPOINT]),
  summarizeWaiting: (tx) => deliveries.summarizeWaiting(tx, { endpointId: ENDPOINT }),
  upsertDeliveries: (tx) => deliveries.upsertDeliveries(tx, ENDPOINT, [delivery]),
  selectDeliveries: (tx) => deliveries.selectDeliveries(tx, ENDPOINT, { before: EVENT, limit: LIMIT }),
  claimCollector: (tx) => siem.claimCollector(tx, lease),
  renewCollector: (tx) => siem.renewCollector(tx, lease),
  savePlaces: (tx) => siem.savePlaces(tx, lease, { 0: 1 }),
  saveProblem: (tx) => siem.saveProblem(tx, lease, "status 500"),
  releaseCollector: (tx) => siem.releaseCollector(tx, lease),
  findSegment: (tx) => siem.findSegment(tx, 0),
  planSegment: (tx) => siem.planSegment(tx, lease, { log: 0, first: 1, last: 2 }),
  deleteOldDeliveries: (tx) => deliveries.deleteOldDeliveries(tx, ENDPOINT, 900),
};

test("every function that reads or changes rows is looked at", async () => {
  const called = new Set(Object.keys(CALLS).map((name) => name.split(":")[0]));
  expect((await storeFunctions(import.meta.dirname)).filter((name) => !called.has(name))).toEqual([]);
});

test("no statement reads a large table, or a large part of it", async () => {
  expect(await database.findOffences(CALLS)).toEqual([]);
});
