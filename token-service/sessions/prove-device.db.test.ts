import { randomUUID } from "node:crypto";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { lockSlot, takeOut, writeSlot } from "../parts/slot-move-store.ts";
import { SlotAwayError } from "../rows/slot-store.ts";
import { slotOfUser } from "../rows/user-slot.ts";
import { proveDevice } from "./prove-device.ts";
import { refreshSession } from "./refresh-session.ts";

const origin = { ip: "192.0.2.1", userAgent: "test", requestId: "request", traceId: "" };

let database: TestDatabase;
let replica: TokenReplica;
/** Another process with the same database, and a clock of its own rate. */
let other: TokenReplica;
const clock = { ms: 0 };

beforeAll(async () => {
  database = await createTestDatabase("token-service");
  clock.ms = Date.now();
  replica = await startTokenReplica(database.sql, { clock });
  other = await startTokenReplica(database.sql, { clock });
});
beforeEach(() => {
  clock.ms = Date.now();
});
afterAll(async () => {
  await Promise.all([replica.stop(), other.stop()]);
  await database.drop();
});

async function device() {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  const jwk = await exportJWK(publicKey);
  const sign = (jti: unknown, header: object = {}) =>
    new SignJWT({ jti } as JWTPayload)
      .setProtectedHeader({ alg: "ES256", typ: "dbsc+jwt", ...header })
      .sign(privateKey);
  return { jwk, sign };
}
type Device = Awaited<ReturnType<typeof device>>;

const register = async ({ jwk, sign }: Device, challenge: string) =>
  proveDevice(replica.deps, { sessionId: "", proof: await sign(challenge, { jwk }) }, origin);
const prove = (sessionId: string, proof = "", at = replica) =>
  proveDevice(at.deps, { sessionId, proof }, origin);
const refresh = (refreshToken: string, deviceCookie?: string, at = replica) =>
  refreshSession(at.deps, refreshToken, { ...origin, deviceCookie });

async function bound() {
  const pair = await logIn(replica, randomUUID());
  const own = await device();
  const { cookie } = await register(own, pair.deviceChallenge ?? "");
  return { ...pair, own, cookie };
}
const MISSING = { code: "device_proof_missing" };
const INVALID = { code: "refresh_token_invalid" };

test("a proof is good for two minutes, at every process; then the refresh needs another one", async () => {
  const { refreshToken, sessionId, own, cookie } = await bound();
  clock.ms += 119_000;
  const next = await refresh(refreshToken, cookie, other);
  clock.ms += 2_000;
  await expect(refresh(next.refreshToken, cookie)).rejects.toMatchObject(MISSING);
  const { challenge } = await prove(sessionId);
  const { cookie: newer } = await prove(sessionId, await own.sign(challenge), other);
  expect((await refresh(next.refreshToken, newer)).deviceChallenge).toBeUndefined();
});

test.each([
  ["none", () => undefined],
  ["of another time", (cookie: string) => cookie.replace(/^\d+/, (end) => String(Number(end) + 60))],
  ["of no time", (cookie: string) => cookie.replace(/^\d+/, "x")],
  ["of another session", async () => (await bound()).cookie],
])(
  "a cookie that is %s refreshes nothing, and a used token does not end the session",
  async (_what, change) => {
    const { refreshToken, cookie } = await bound();
    const second = await refresh(refreshToken, cookie);
    const third = await refresh(second.refreshToken, cookie);
    const wrong = await change(cookie);
    for (const token of [refreshToken, second.refreshToken, third.refreshToken])
      await expect(refresh(token, wrong)).rejects.toMatchObject(MISSING);
    expect((await refresh(third.refreshToken, cookie)).sessionId).toBe(third.sessionId);
  },
);

test("who takes both cookies within their two minutes is found out at the browser's next refresh", async () => {
  const { refreshToken, sessionId, own, cookie } = await bound();
  const stolen = await refresh(refreshToken, cookie);
  await refresh(stolen.refreshToken, cookie);
  clock.ms += 121_000;
  const { challenge } = await prove(sessionId);
  const { cookie: newer } = await prove(sessionId, await own.sign(challenge));
  await expect(refresh(refreshToken, newer)).rejects.toMatchObject({ code: "refresh_token_reused" });
});

test("a challenge expires after five minutes, counts once, and is of one session", async () => {
  const { sessionId, own } = await bound();
  const { challenge } = await prove(sessionId);
  const proof = await own.sign(challenge);
  clock.ms += 301_000;
  const stale = await prove(sessionId, proof);
  expect([stale.cookie, stale.challenge === challenge]).toEqual(["", false]);
  const fresh = await own.sign(stale.challenge);
  const answers = await Promise.all([prove(sessionId, fresh), prove(sessionId, fresh, other)]);
  expect(answers.map(({ cookie }) => cookie !== "").sort()).toEqual([false, true]);
  const another = await bound();
  const ofAnother = await own.sign((await prove(another.sessionId)).challenge);
  expect((await prove(sessionId, ofAnother)).cookie).toBe("");
  await expect(prove(another.sessionId, ofAnother)).rejects.toMatchObject(INVALID);
});

test("a session is bound within five minutes of its login and once, whoever asks at the same moment", async () => {
  const pair = await logIn(replica, randomUUID());
  const challenge = pair.deviceChallenge ?? "";
  const devices = await Promise.all([device(), device(), device()]);
  const results = await Promise.allSettled(devices.map((one) => register(one, challenge)));
  expect(results.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected"]);
  const rows = await database.sql`
    select type from security_events where session_id = ${pair.sessionId} order by type
  `;
  expect(rows.map(({ type }) => type)).toEqual(["device_bound", "device_refused", "device_refused"]);
  const late = await logIn(replica, randomUUID());
  clock.ms += 301_000;
  await expect(register(await device(), late.deviceChallenge ?? "")).rejects.toMatchObject(INVALID);
  // It stays as it was.
  expect((await refresh(late.refreshToken)).sessionId).toBe(late.sessionId);
});

test("a registration that meets a move of its session is refused nothing: it is repeated where the session is", async () => {
  const userId = randomUUID();
  const slot = slotOfUser(userId);
  const { sessionId, deviceChallenge = "" } = await logIn(replica, userId);
  const own = await device();
  let registering: Promise<unknown> = Promise.resolve();
  await transaction(database.sql, async (tx) => {
    const { epoch } = await lockSlot(tx, slot);
    await takeOut(tx, slot);
    registering = register(own, deviceChallenge);
    registering.catch(() => undefined);
    await expect.poll(() => database.waitingForLocks()).toBe(1);
    await writeSlot(tx, slot, { state: "leaving", epoch: epoch + 1, peer: 1 });
  });
  await expect(registering).rejects.toBeInstanceOf(SlotAwayError);
  const events = await database.sql`select type from security_events where session_id = ${sessionId}`;
  expect(events).toEqual([]);
  await database.ownerSql`update slots set state = 'here' where slot = ${slot}`;
});

test("a challenge of a refresh binds no other key, and an unbound session has no proofs", async () => {
  const { sessionId } = await bound();
  const { challenge } = await prove(sessionId);
  await expect(register(await device(), challenge)).rejects.toMatchObject(INVALID);
  const unbound = await logIn(replica, randomUUID());
  await expect(prove(unbound.sessionId)).rejects.toMatchObject({ code: "not_found" });
});

test.each([
  ["no JWT", async () => "text"],
  [
    "a secret",
    async ({ jwk }: Device, jti: string) => {
      const secret = new TextEncoder().encode(JSON.stringify(jwk));
      return new SignJWT({ jti }).setProtectedHeader({ alg: "HS256", typ: "dbsc+jwt" }).sign(secret);
    },
  ],
  ["another type", ({ sign }: Device, jti: string) => sign(jti, { typ: "JWT" })],
  [
    "a new key of its own",
    async (_own: Device, jti: string) => {
      const { jwk, sign } = await device();
      return sign(jti, { jwk });
    },
  ],
  ["a long text", async ({ sign }: Device, jti: string) => sign(jti, { kid: "k".repeat(4_096) })],
])("a proof that is %s is refused and recorded", async (_what, make) => {
  const { sessionId, own } = await bound();
  const { challenge } = await prove(sessionId);
  await expect(prove(sessionId, await make(own, challenge))).rejects.toMatchObject(INVALID);
  const rows = await database.sql`
    select type from security_events where session_id = ${sessionId} and type = 'device_refused'
  `;
  expect(rows).toHaveLength(1);
  expect((await prove(sessionId, await own.sign(challenge))).cookie).not.toBe("");
});

test.each([
  [
    "an unsigned one",
    async () => `${Buffer.from('{"alg":"none","typ":"dbsc+jwt"}').toString("base64url")}.e30.`,
  ],
  ["one without a key", ({ sign }: Device, jti: string) => sign(jti)],
  [
    "one with a private key",
    async ({ sign }: Device, jti: string) => sign(jti, { jwk: { kty: "oct", k: "AA" } }),
  ],
  [
    "one of a point that is not on the curve",
    ({ sign, jwk }: Device, jti: string) => sign(jti, { jwk: { ...jwk, x: jwk.y } }),
  ],
])("a registration with %s binds nothing", async (_what, make) => {
  const pair = await logIn(replica, randomUUID());
  const proof = await make(await device(), pair.deviceChallenge ?? "");
  await expect(proveDevice(replica.deps, { sessionId: "", proof }, origin)).rejects.toMatchObject(INVALID);
  expect((await refresh(pair.refreshToken)).sessionId).toBe(pair.sessionId);
});

test("a session whose tokens are bound to a key already gets no challenge", async () => {
  const pair = await logIn(replica, randomUUID(), "USER", { jkt: "K".repeat(43), x5tS256: "" });
  expect(pair.deviceChallenge).toBeUndefined();
});

test.each([[1], [null], [{}], [["a"]]])(
  "a proof over %j, which is no text, is refused like any other",
  async (jti) => {
    const stranger = await device();
    const proof = await stranger.sign(jti, { jwk: stranger.jwk });
    await expect(prove("", proof)).rejects.toMatchObject(INVALID);
    const { sessionId, own } = await bound();
    await expect(prove(sessionId, await own.sign(jti))).rejects.toMatchObject(INVALID);
  },
);
