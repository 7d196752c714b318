import { randomBytes, randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  logIn,
  startTokenReplica,
  type TokenReplica,
  type TokenReplicaOptions,
} from "#tests/support/system/token-service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { LOG_BEGIN, readRevocations } from "../revocations/revocation-store.ts";
import { refreshSession } from "../sessions/refresh-session.ts";
import { exchangeToken } from "../tokens/exchange-token.ts";
import { signCompactJws } from "../tokens/jws-signature.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { ensureSigningKeys } from "./ensure-signing-keys.ts";
import { KeyRing } from "./key-ring.ts";
import { listKeys, lockKeys } from "./key-store.ts";
import { revokeSigningKey } from "./revoke-signing-key.ts";
import { promoteNextKey, rotateSigningKey, rotateSigningKeyWhenDue } from "./rotate-signing-key.ts";

let database: TestDatabase;
const cause = { reason: "test", requestId: "r", traceId: "t" };
const replicas: TokenReplica[] = [];
const origin = { ip: "192.0.2.2", userAgent: "test", requestId: "r", traceId: "t" };

beforeEach(async () => {
  database = await createTestDatabase("token-service");
});

afterEach(async () => {
  for (const replica of replicas.splice(0)) replica.stop();
  await database.drop();
});

async function start(options: TokenReplicaOptions = {}): Promise<TokenReplica> {
  const replica = await startTokenReplica(database.sql, options);
  replicas.push(replica);
  return replica;
}

const strangeKey = () => randomBytes(32).toString("base64url");
const statesOf = async () => (await listKeys(database.sql)).map(({ state }) => state).sort();

test("replicas that start together make one active and one next key", async () => {
  await Promise.all([start(), start(), start()]);
  expect(await statesOf()).toEqual(["active", "next"]);
});

test("a next key is in the key set before it signs, and too young a one does not take over unless forced", async () => {
  const { deps } = await start();
  const next = deps.keys.list().find(({ state }) => state === "next");
  expect(deps.keys.publicJwks().keys.map(({ kid }) => kid)).toContain(next?.id);
  await expect(rotateSigningKey(deps, { force: false }, cause)).rejects.toMatchObject({ code: "conflict" });
  // Half as long again as a reader may keep the key set is not enough: it may have read it just before the key came.
  await database.ownerSql`update signing_keys set created_at = now() - interval '450 seconds'`;
  await expect(rotateSigningKey(deps, { force: false }, cause)).rejects.toMatchObject({ code: "conflict" });
  await database.ownerSql`update signing_keys set created_at = now() - interval '600 seconds'`;
  expect(await rotateSigningKey(deps, { force: false }, cause)).toMatchObject({
    id: next?.id,
    state: "active",
  });
  expect(await statesOf()).toEqual(["active", "next", "retired"]);
});

test("the key set shows no secret", async () => {
  const { deps } = await start();
  for (const jwk of deps.keys.publicJwks().keys) {
    expect(Object.keys(jwk).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x"]);
  }
});

test("tokens from before a rotation stay valid and new ones have the new key, on a replica that did not rotate", async () => {
  const first = await start();
  const second = await start();
  const before = await logIn(first, randomUUID());
  await rotateSigningKey(first.deps, { force: true }, cause);
  await first.deps.keys.reload();
  const after = await logIn(first, randomUUID());
  const verdicts = await Promise.all(
    [before, after].map((pair) => verifyToken(second.deps, pair.accessToken)),
  );
  expect(verdicts.map(({ active }) => active)).toEqual([true, true]);
  const keyIds = verdicts.map((verdict) => verdict.active && verdict.token.keyId);
  expect(new Set(keyIds).size).toBe(2);
});

test("a key created and activated within a second is looked up by replicas that do not know it", async () => {
  const first = await start();
  const second = await start();
  await rotateSigningKey(first.deps, { force: true }, cause);
  await rotateSigningKey(first.deps, { force: true }, cause);
  await first.deps.keys.reload();
  const { accessToken } = await logIn(first, randomUUID());
  expect(await verifyToken(second.deps, accessToken)).toMatchObject({ active: true });
});

/** A replica that knows only the keys of its start, and a session whose tokens have a key that came afterwards. */
async function withUnheardKey() {
  const first = await start();
  const second = await start({ followsKeys: false });
  await rotateSigningKey(first.deps, { force: true }, cause);
  await rotateSigningKey(first.deps, { force: true }, cause);
  await first.deps.keys.reload();
  return { first, second };
}

test("all callers with a new key during its look-up get it, and none gets an invalid verdict", async () => {
  const { first, second } = await withUnheardKey();
  const pairs = await Promise.all(Array.from({ length: 10 }, () => logIn(first, randomUUID())));
  const strangers = Array.from({ length: 50 }, () => second.deps.keys.findAgain(strangeKey()));
  const verdicts = pairs.map(({ accessToken }) => verifyToken(second.deps, accessToken));
  const refreshes = pairs.map(({ refreshToken }) => refreshSession(second.deps, refreshToken, origin));
  expect(new Set((await Promise.all(verdicts)).map(({ active }) => active))).toEqual(new Set([true]));
  await expect(Promise.all(refreshes)).resolves.toHaveLength(10);
  expect(await Promise.all(strangers)).toEqual(strangers.map(() => undefined));
});

test("a look that found nothing does not hide a key that is made right after it", async () => {
  const { first, second } = await withUnheardKey();
  expect(await second.deps.keys.findAgain(strangeKey())).toBeUndefined();
  await rotateSigningKey(first.deps, { force: true }, cause);
  await rotateSigningKey(first.deps, { force: true }, cause);
  await first.deps.keys.reload();
  const pair = await logIn(first, randomUUID());
  await expect(refreshSession(second.deps, pair.refreshToken, origin)).resolves.toBeDefined();
});

test("while keys cannot be read, refresh tokens of unknown keys have no verdict", async () => {
  const { first, second } = await withUnheardKey();
  const pair = await logIn(first, randomUUID());
  second.deps.keys.reload = () => Promise.reject(new DomainError("service_unavailable"));
  await expect(refreshSession(second.deps, pair.refreshToken, origin)).rejects.toMatchObject({
    code: "service_unavailable",
  });
});

test("a replica that reads of a new key in the log's snapshot has it without being asked", async () => {
  const first = await start();
  const second = await start();
  await rotateSigningKey(first.deps, { force: true }, cause);
  await rotateSigningKey(first.deps, { force: true }, cause);
  await first.deps.keys.reload();
  const { id } = first.deps.keys.active();
  await expect.poll(() => second.deps.keys.find(id)?.state).toBe("active");
});

test("a banned key's access tokens are refused everywhere, and its refresh tokens still give new ones", async () => {
  const first = await start();
  const second = await start();
  const pair = await logIn(first, randomUUID());
  expect(await verifyToken(second.deps, pair.accessToken)).toMatchObject({ active: true });
  await revokeSigningKey(first.deps, first.deps.keys.active().id, cause);
  await Promise.all([first, second].map(({ deps }) => deps.revocations.refresh()));

  for (const { deps } of [first, second]) {
    expect(await verifyToken(deps, pair.accessToken)).toMatchObject({ active: false });
  }
  await Promise.all([first, second].map(({ deps }) => deps.keys.reload()));
  const next = await refreshSession(second.deps, pair.refreshToken, origin);
  expect(await verifyToken(first.deps, next.accessToken)).toMatchObject({ active: true });
  expect(await statesOf()).toEqual(["active", "next", "revoked"]);
  expect(second.deps.keys.publicJwks().keys).toHaveLength(2);
});

test("a replica that knows of a ban and has not reloaded signs with the next key", async () => {
  const first = await start();
  const second = await start();
  const pair = await logIn(second, randomUUID());
  const banned = first.deps.keys.active().id;
  await revokeSigningKey(first.deps, banned, cause);
  await second.deps.revocations.refresh();
  const next = await refreshSession(second.deps, pair.refreshToken, origin);
  await first.deps.keys.reload();
  expect(await verifyToken(first.deps, next.accessToken)).toMatchObject({ active: true });
  expect(await verifyToken(second.deps, next.accessToken)).toMatchObject({ active: true });
});

test("keys that were read before a ban and arrive after it do not bring the banned key back", async () => {
  const first = await start();
  const second = await start();
  const banned = first.deps.keys.active().id;
  const reading = second.deps.keys.reload();
  second.deps.keys.ban(banned);
  await reading;
  expect(second.deps.keys.find(banned)).toMatchObject({ state: "revoked" });
  expect(second.deps.keys.active().id).not.toBe(banned);
});

test("a stolen signing key alone cannot make a refresh token", async () => {
  const { deps } = await start();
  const pair = await logIn({ deps } as TokenReplica, randomUUID());
  const { SignJWT, decodeJwt } = await import("jose");
  const key = deps.keys.active();
  const claims = { ...decodeJwt(pair.refreshToken), jti: randomBytes(16).toString("base64url") };
  const forged = await new SignJWT(claims)
    .setProtectedHeader({ alg: "EdDSA", typ: "rt+jwt", kid: key.id })
    .sign(key.privateKey);
  await expect(refreshSession(deps, forged, origin)).rejects.toMatchObject({ code: "refresh_token_invalid" });
  await expect(refreshSession(deps, pair.refreshToken, origin)).resolves.toBeDefined();
});

test("private keys are not readable in the database, and are gone once a key no longer signs", async () => {
  const { deps } = await start();
  await rotateSigningKey(deps, { force: true }, cause);
  const rows = await listKeys(database.sql);
  for (const { state, privateEncrypted } of rows) {
    expect(privateEncrypted === null).toBe(state === "retired");
    expect(privateEncrypted?.toString("latin1") ?? "").not.toMatch(/"d"|"kty"/);
  }
});

test("keys of another encryption key are not used, and the error names which one is missing", async () => {
  await start();
  await expect(start({ encryptionKey: randomBytes(32).toString("base64") })).rejects.toThrow(
    /encrypted with key [0-9a-f]{16}/,
  );
});

test("after a change of the encryption key, everything is under the new one and the old one can go", async () => {
  const { deps } = await start();
  const [old] = deps.encryptionKeys;
  const fresh = parseEncryptionKey(randomBytes(32).toString("base64"));
  if (fresh === undefined) throw new Error("unreachable");
  await ensureSigningKeys({ ...deps, encryptionKeys: [fresh, old] });
  const ring = new KeyRing({
    accessTtlS: 900,
    now: () => new Date(),
    sql: database.sql,
    encryptionKeys: [fresh],
    logger: deps.logger,
  });
  await ring.reload();
  expect(ring.active().id).toBe(deps.keys.active().id);
});

test("secrets of refresh tokens are under the new key, too, also those of keys that sign no more", async () => {
  const { deps } = await start();
  await rotateSigningKey(deps, { force: true }, cause);
  const [old] = deps.encryptionKeys;
  const fresh = parseEncryptionKey(randomBytes(32).toString("base64"));
  if (fresh === undefined) throw new Error("unreachable");
  await deps.keys.reload();
  const before = deps.keys
    .list()
    .map(({ id, refreshSecret }) => [id, refreshSecret?.export().toString("hex")]);
  const ids = async () => {
    const rows = await database.sql`select distinct refresh_secret_key_id as id from signing_keys`;
    return rows.map(({ id }) => id as string);
  };
  expect(await ids()).toEqual([old.id]);
  await ensureSigningKeys({ ...deps, encryptionKeys: [fresh, old] });
  expect(await ids()).toEqual([fresh.id]);
  const ring = new KeyRing({
    accessTtlS: 900,
    now: () => new Date(),
    sql: database.sql,
    encryptionKeys: [fresh],
    logger: deps.logger,
  });
  await ring.reload();
  expect(ring.list().map(({ id, refreshSecret }) => [id, refreshSecret?.export().toString("hex")])).toEqual(
    before,
  );
  expect(new Set(before.map(([, secret]) => secret)).size).toBe(3);
});

test.each([
  ["of another key", "refresh_secret_encrypted = b.refresh_secret_encrypted"],
  ["that is a private key", "refresh_secret_encrypted = a.private_encrypted"],
])("a refresh secret %s is noticed", async (_, change) => {
  const { deps } = await start();
  await database.ownerSql.unsafe(
    `update signing_keys as a set ${change} from signing_keys as b where a.id <> b.id and a.private_encrypted is not null`,
  );
  const ring = new KeyRing({
    accessTtlS: 900,
    now: () => new Date(),
    sql: database.sql,
    encryptionKeys: deps.encryptionKeys,
    logger: deps.logger,
  });
  await expect(ring.reload()).rejects.toThrow();
});

test("a private key swapped for another in the database is noticed", async () => {
  const { deps } = await start();
  await database.sql`update signing_keys as a set private_encrypted = b.private_encrypted from signing_keys as b where a.id <> b.id`;
  const ring = new KeyRing({
    accessTtlS: 900,
    now: () => new Date(),
    sql: database.sql,
    encryptionKeys: deps.encryptionKeys,
    logger: deps.logger,
  });
  await expect(ring.reload()).rejects.toThrow();
});

test("a key is rotated by age, once, however many replicas look", async () => {
  const clock = { ms: Date.now() };
  const all = [await start({ clock }), await start({ clock }), await start({ clock })];
  clock.ms += 5_184_000_000; // what a replica believes counts for nothing
  expect(await rotateSigningKeyWhenDue(all[0]?.deps ?? ({} as never))).toBe(false);
  await database.ownerSql`
    update signing_keys set created_at = past.at, activated_at = case when state = 'active' then past.at end
    from (select now() - interval '30 days' as at) as past
  `;
  const rotated = await Promise.all(all.map(({ deps }) => rotateSigningKeyWhenDue(deps)));
  expect(rotated.filter(Boolean)).toHaveLength(1);
});

test("a token that was made with a key after its end is refused everywhere, one of a minute after is the last", async () => {
  const { deps } = await start();
  const stolen = deps.keys.active();
  await rotateSigningKey(deps, { force: true }, cause);
  await deps.keys.reload();
  const retiredAtS = Math.floor((deps.keys.find(stolen.id)?.retiredAt?.getTime() ?? 0) / 1_000);
  const { accessToken } = await logIn({ deps } as TokenReplica, randomUUID());
  const jws = parseCompactJws(accessToken);
  if (typeof jws === "string") throw new Error(jws);
  const made = (iat: number) =>
    signCompactJws(stolen, "at+jwt", { ...jws.payload, role: "ADMIN", iat, exp: iat + 900 });
  const later = { ...deps, now: () => new Date((retiredAtS + 61) * 1_000) };
  const [last, late] = [made(retiredAtS + 60), made(retiredAtS + 61)];
  expect(await verifyToken(later, last)).toMatchObject({ active: true });
  expect(await verifyToken(later, late)).toEqual({ active: false, refusal: "kid" });
  await expect(exchangeToken(later, { token: late, audience: "ledger" })).rejects.toMatchObject({
    code: "token_invalid",
  });
  // Also from memory: the replica had not noticed the end of the key.
  deps.verified.set(late, { claims: { ...jws.payload, iat: retiredAtS + 61 } as never, keyId: stolen.id });
  expect(await verifyToken(later, late)).toEqual({ active: false, refusal: "kid" });
});

test("a retired key leaves the stream when the last access token that it may have signed has ended, and stays for refresh tokens", async () => {
  const { deps } = await start();
  const { id } = deps.keys.active();
  await rotateSigningKey(deps, { force: true }, cause);
  const published = async () => {
    const read = await transaction(deps.sql, (tx) =>
      readRevocations(tx, { positions: [LOG_BEGIN], slotChanges: 0 }, { part: 0, accessTtlS: 900 }),
    );
    return read.keys.map(({ keyId }) => keyId);
  };
  await database.ownerSql`update signing_keys set retired_at = now() - interval '960 seconds' where state = 'retired'`;
  expect(await published()).toContain(id);
  await database.ownerSql`update signing_keys set retired_at = now() - interval '970 seconds' where state = 'retired'`;
  expect(await published()).not.toContain(id);
  await ensureSigningKeys(deps);
  expect(await statesOf()).toEqual(["active", "next", "retired"]);
});

test("a token that was exchanged for one of a key is refused when that key is banned", async () => {
  const replica = await start();
  const { deps } = replica;
  const old = deps.keys.active().id;
  const { accessToken } = await logIn(replica, randomUUID());
  await rotateSigningKey(deps, { force: true }, cause);
  await deps.keys.reload();
  const { accessToken: exchanged, keyId } = await exchangeToken(deps, {
    token: accessToken,
    audience: "ledger",
  });
  expect(keyId).not.toBe(old);
  expect(await verifyToken(deps, exchanged, { audience: "ledger" })).toMatchObject({ active: true });
  await revokeSigningKey(deps, old, cause);
  await deps.revocations.refresh();
  expect(await verifyToken(deps, exchanged, { audience: "ledger" })).toEqual({
    active: false,
    refusal: "revoked",
  });
});

test("a retired key is kept until the last token it signed has expired, then deleted", async () => {
  const clock = { ms: Date.now() };
  const { deps } = await start({ clock });
  await rotateSigningKey(deps, { force: true }, cause);
  clock.ms += 5_184_000_000; // what a replica believes counts for nothing
  await ensureSigningKeys(deps);
  await database.ownerSql`update signing_keys set retired_at = now() - make_interval(secs => 604800 + 50) where state = 'retired'`;
  await ensureSigningKeys(deps);
  expect(await statesOf()).toEqual(["active", "next", "retired"]);
  await database.ownerSql`update signing_keys set retired_at = now() - make_interval(secs => 604800 + 60) where state = 'retired'`;
  await ensureSigningKeys(deps);
  expect(await statesOf()).toEqual(["active", "next"]);
});

test("a change of algorithm in the configuration replaces the next key only", async () => {
  await start();
  const { deps } = await start({ algorithm: "ES256" });
  const algorithms = Object.fromEntries(deps.keys.list().map(({ state, algorithm }) => [state, algorithm]));
  expect(algorithms).toEqual({ active: "EdDSA", next: "ES256" });
});

test("revoking an unknown key is not_found", async () => {
  const { deps } = await start();
  await expect(revokeSigningKey(deps, "nobody", cause)).rejects.toMatchObject({ code: "not_found" });
});

const eventsOf = async () =>
  (await database.ownerSql`select type, key_id as "keyId", reason from security_events order by id`).map(
    ({ type, keyId, reason }) => [type, keyId, reason],
  );

test("a next key that is banned is replaced, and another ban of it changes nothing", async () => {
  const { deps } = await start();
  const active = deps.keys.active().id;
  const next = deps.keys.list().find(({ state }) => state === "next")?.id ?? "";
  let rings = 0;
  const ringing = {
    ...deps,
    revocations: {
      announce: () => {
        rings += 1;
      },
    },
  };
  const first = await revokeSigningKey(ringing, next, cause);
  expect(await statesOf()).toEqual(["active", "next", "revoked"]);
  expect(await eventsOf()).toEqual([["signing_key_revoked", next, "test"]]);
  expect(await revokeSigningKey(ringing, next, cause)).toBe(first);
  expect(await statesOf()).toEqual(["active", "next", "revoked"]);
  expect(rings).toBe(2);
  expect(await eventsOf()).toEqual([["signing_key_revoked", next, "test"]]);
  const rows = await database.ownerSql`select key_id as "keyId" from revocations`;
  expect(rows.map(({ keyId }) => keyId as string)).toEqual([next]);
  await deps.keys.reload();
  expect(deps.keys.active().id).toBe(active);
});

test("a retired key that is banned moves no other, and its tokens are refused", async () => {
  const { deps } = await start();
  const old = deps.keys.active().id;
  const { id: active } = await rotateSigningKey(deps, { force: true }, cause);
  await revokeSigningKey(deps, old, cause);
  expect(await statesOf()).toEqual(["active", "next", "revoked"]);
  await deps.revocations.refresh();
  expect(deps.revocations.isKeyRevoked(old)).toBe(true);
  await deps.keys.reload();
  expect(deps.keys.active().id).toBe(active);
});

test("a key is due by its own age, and only once the next one is known to every reader", async () => {
  const { deps } = await start();
  const setAges = (active: string, next: string) => database.ownerSql`
    update signing_keys set
      activated_at = case when state = 'active' then past.active end,
      created_at = case when state = 'next' then past.next else past.now end
    from (select now() - ${active}::interval as active, now() - ${next}::interval as next, now() as now) as past`;
  await setAges("31 days", "599 seconds");
  expect(await rotateSigningKeyWhenDue(deps)).toBe(false);
  await setAges("29 days", "601 seconds");
  expect(await rotateSigningKeyWhenDue(deps)).toBe(false);
  await setAges("31 days", "601 seconds");
  const next = deps.keys.list().find(({ state }) => state === "next")?.id;
  expect(await rotateSigningKeyWhenDue(deps)).toBe(true);
  expect(await eventsOf()).toEqual([["signing_key_rotated", next, "age"]]);
});

test("a rotation and a ban that had to wait decide by what another replica has committed", async () => {
  const { deps } = await start();
  const old = deps.keys.active().id;
  const { changes } = await transaction(database.sql, async (tx) => {
    await lockKeys(tx);
    await promoteNextKey(tx, deps, await listKeys(tx), cause);
    const changes = Promise.allSettled([
      rotateSigningKey(deps, { force: true }, cause),
      revokeSigningKey(deps, old, cause),
    ]);
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(2);
    return { changes };
  });
  expect((await changes).map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
  expect(await statesOf()).toEqual(["active", "next", "retired", "revoked"]);
  const events = (await eventsOf()).map(([type]) => type);
  expect(events.toSorted()).toEqual(["signing_key_revoked", "signing_key_rotated", "signing_key_rotated"]);
});

test("a rotation without a next key makes the one that takes over", async () => {
  const { deps } = await start();
  await database.ownerSql`delete from signing_keys where state = 'next'`;
  const { id } = await rotateSigningKey(deps, { force: true }, cause);
  expect(await statesOf()).toEqual(["active", "next", "retired"]);
  expect(id).not.toBe(deps.keys.active().id);
});

test("a rotation event names the new key and the reason", async () => {
  const { deps } = await start();
  const { id } = await rotateSigningKey(deps, { force: true }, cause);
  expect(await eventsOf()).toEqual([["signing_key_rotated", id, "test"]]);
});
