import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createPlantedDatabase,
  PLANTED_ROWS,
  type PlantedDatabase,
  plantedHash,
  plantedId,
  type StoreCalls,
  storeFunctions,
} from "#tests/support/database/planted-database.ts";
import * as events from "./events/security-event-store.ts";
import * as keys from "./keys/key-store.ts";
import * as moves from "./parts/slot-move-store.ts";
import * as revocations from "./revocations/revocation-store.ts";
import * as sessions from "./rows/session-store.ts";
import * as slots from "./rows/slot-store.ts";

const USER = plantedId(1_000);
const SESSION = plantedId(2_000);
const LIMIT = 10;
const now = new Date();
const hourAgo = new Date(now.getTime() - 3_600_000);

let database: PlantedDatabase;
beforeAll(async () => {
  const LARGE = {
    sessions: {
      user_id: "('00000000-0000-7000-8000-' || lpad(to_hex((n + 1) / 2), 12, '0'))::uuid",
      role: "'USER'",
      idle_end: "now() + case when n <= 20 then interval '-2 days' else interval '7 days' end",
      absolute_end: "now() + interval '30 days'",
      revoked_at: "case when n % 20 = 0 then now() end",
      revoked_reason: "case when n % 20 = 0 then 'logout' end",
      acr: "1",
    },
    revocations: {
      sequence: "n",
      session_id: "gen_random_uuid()",
      tip: "gen_random_uuid()",
      expires_at: "now() - interval '1 hour' + (n - 20) * interval '1 second'",
    },
    security_events: {
      type: "'session_revoked'",
      recorded_at: `case when n <= ${PLANTED_ROWS / 2} then now() - interval '1 day' + (n - 20) * interval '1 second' end`,
      notified_at: `case when n <= ${PLANTED_ROWS / 2} then now() - interval '1 day' + (n - 20) * interval '1 second' end`,
    },
  };
  database = await createPlantedDatabase("token-service", {
    large: LARGE,
    after: `update revocation_head set sequence = ${PLANTED_ROWS}`,
  });
});
afterAll(() => database.drop());

const key = {
  algorithm: "EdDSA",
  publicJwk: {},
  encryptionKeyId: "k",
  privateEncrypted: Buffer.alloc(8),
  refreshSecretEncrypted: Buffer.alloc(8),
} as const;
const session = {
  id: plantedId(99_999),
  userId: USER,
  role: "USER",
  amr: ["pwd"],
  acr: 1 as const,
  authTime: now,
  tokenSecret: plantedHash(1),
  generation: 1,
  rotatedAt: now,
  leafSeen: false,
  deviceKey: null,
  deviceProofs: 0,
  createdAt: now,
  lastUsedAt: now,
  idleS: null,
  idleEnd: now,
  absoluteEnd: new Date(now.getTime() + 1_000),
  revokedAt: null,
  ip: "",
  userAgent: "",
  jkt: null,
  x5tS256: null,
};
const CALLS: StoreCalls = {
  lockKeys: (tx) => keys.lockKeys(tx),
  listKeys: (tx) => keys.listKeys(tx),
  insertKey: (tx) => keys.insertKey(tx, { id: "k", state: "active", ...key }),
  retireActiveKey: (tx) => keys.retireActiveKey(tx),
  activateNextKey: (tx) => keys.activateNextKey(tx),
  markKeyRevoked: (tx) => keys.markKeyRevoked(tx, "k"),
  deleteNextKey: (tx) => keys.deleteNextKey(tx),
  deleteRetiredKeys: (tx) => keys.deleteRetiredKeys(tx, 60),
  replaceEncryptedKey: (tx) => keys.replaceEncryptedKey(tx, "k", Buffer.alloc(8), "k"),
  replaceRefreshSecret: (tx) => keys.replaceRefreshSecret(tx, "k", Buffer.alloc(8), "k"),
  appendRevocations: (tx) => revocations.appendRevocations(tx, [{ sessionId: SESSION }], 910),
  "appendRevocations: none": (tx) => revocations.appendRevocations(tx, [], 910),
  readRevocations: (tx) =>
    revocations.readRevocations(
      tx,
      {
        positions: [{ sequence: PLANTED_ROWS - LIMIT, tip: "" }, revocations.LOG_BEGIN],
        slotChanges: 0,
      },
      { part: 0, accessTtlS: 900 },
    ),
  deleteExpiredRevocations: (tx) => revocations.deleteExpiredRevocations(tx, LIMIT),
  "deleteExpiredRevocations: fewer than asked for": (tx) => revocations.deleteExpiredRevocations(tx, 1_000),
  insertEndedSessions: (tx) =>
    events.insertEndedSessions(tx, { userId: USER, sessionIds: [SESSION], reason: "logout", at: now }),
  claimDueEvents: (tx) => events.claimDueEvents(tx, { leaseMs: 1, limit: LIMIT }),
  oldestUndelivered: (tx) => events.oldestUndelivered(tx),
  markEventDelivered: (tx) => events.markEventDelivered(tx, SESSION, { isRecorded: true, isNotified: true }),
  deleteDeliveredEvents: (tx) => events.deleteDeliveredEvents(tx, LIMIT),
  "deleteDeliveredEvents: fewer than asked for": (tx) => events.deleteDeliveredEvents(tx, 1_000),
  readSlot: (tx) => moves.readSlot(tx, 5),
  lockSlot: (tx) => moves.lockSlot(tx, 5),
  writeSlot: (tx) => moves.writeSlot(tx, 5, { state: "leaving", epoch: 1, peer: 1 }),
  takeOut: (tx) => moves.takeOut(tx, 5),
  readLeaving: (tx) => moves.readLeaving(tx, 5),
  putIn: async (tx) => {
    await moves.takeOut(tx, 5);
    return moves.putIn(tx, 5, await moves.readLeaving(tx, 5), 60);
  },
  dropSessions: (tx) => moves.dropSessions(tx, 5),
  listLeaving: (tx) => moves.listLeaving(tx),
  forgetLeaving: (tx) => moves.forgetLeaving(tx, 5),
  readSlotChanges: (tx) => slots.readSlotChanges(tx),
  assertHere: (tx) => slots.assertHere(tx, [1, 2]),
  lockUser: (tx) => sessions.lockUser(tx, USER),
  insertSession: (tx) => sessions.insertSession(tx, session),
  countLiveSessions: (tx) => sessions.countLiveSessions(tx, USER, now),
  lockSession: (tx) => sessions.lockSession(tx, SESSION),
  lockLiveSessions: (tx) => sessions.lockLiveSessions(tx, USER),
  listLiveSessions: (tx) => sessions.listLiveSessions(tx, USER),
  readSession: (tx) => sessions.readSession(tx, SESSION),
  advanceLiveGeneration: (tx) => sessions.advanceLiveGeneration(tx, session, session),
  countDeviceProof: (tx) => sessions.countDeviceProof(tx, session, {}),
  raiseAssurance: (tx) => sessions.raiseAssurance(tx, SESSION, session),
  noteSigning: (tx) => sessions.noteSigning(tx, SESSION),
  markSessionsRevoked: (tx) => sessions.markSessionsRevoked(tx, [SESSION], "logout", now),
  revokeNextSessions: (tx) =>
    sessions.revokeNextSessions(
      tx,
      { issuedBefore: now, signedSince: hourAgo, cursor: SESSION, limit: LIMIT },
      "bench",
    ),
  eraseOrigins: (tx) => sessions.eraseOrigins(tx, USER),
  markLeavesSeen: (tx) => sessions.markLeavesSeen(tx, [{ sessionId: SESSION, generation: 1 }], now),
  sweepSessions: (tx) => sessions.sweepSessions(tx, undefined, LIMIT),
  "sweepSessions: further on": (tx) => sessions.sweepSessions(tx, SESSION, LIMIT),
};

test("every function that reads or changes rows is looked at", async () => {
  const called = new Set(Object.keys(CALLS).map((name) => name.split(":")[0]));
  expect((await storeFunctions(import.meta.dirname)).filter((name) => !called.has(name))).toEqual([]);
});

test("no statement reads a large table, or a large part of it", async () => {
  expect(await database.findOffences(CALLS)).toEqual([]);
});
