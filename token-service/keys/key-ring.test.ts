import { randomBytes } from "node:crypto";
import { expect, test, vi } from "vitest";
import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { encrypt, parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { KeyRing } from "./key-ring.ts";
import type { SigningKeyRow } from "./key-store.ts";
import { generateSigningKey, type KeyState, refreshSecretContext } from "./signing-key.ts";

const encryptionKey = parseEncryptionKey(randomBytes(32).toString("base64"));
if (encryptionKey === undefined) throw new Error("unreachable");
const unavailable = expect.objectContaining({ code: "service_unavailable", retryAfterMs: 1_000 });

async function keyRow(state: KeyState): Promise<SigningKeyRow> {
  const { id, publicJwk, privateJwk } = await generateSigningKey("EdDSA");
  const hasPrivate = state === "active" || state === "next";
  return {
    id,
    algorithm: "EdDSA",
    state,
    publicJwk,
    privateEncrypted: hasPrivate
      ? encrypt(encryptionKey as never, Buffer.from(JSON.stringify(privateJwk)), id)
      : null,
    encryptionKeyId: (encryptionKey as { id: string }).id,
    createdAt: new Date(0),
    activatedAt: null,
    retiredAt: null,
    publishedForS: 0,
    refreshSecretEncrypted: encrypt(encryptionKey as never, randomBytes(32), refreshSecretContext(id)),
    refreshSecretKeyId: (encryptionKey as { id: string }).id,
    activeForS: null,
  };
}

/** A key ring on an array of rows that the test changes. */
async function ringOf(...rows: SigningKeyRow[]) {
  const stored = { rows, nowMs: 0, reads: 0, wait: Promise.resolve() };
  const sql = (async () => {
    stored.reads += 1;
    await stored.wait;
    return stored.rows;
  }) as unknown as Sql;
  const warn = vi.fn();
  const ring = new KeyRing({
    sql,
    encryptionKeys: [encryptionKey as never],
    accessTtlS: 900,
    now: () => new Date(stored.nowMs),
    logger: { warn } as unknown as Logger,
  });
  await ring.reload();
  return { ring, stored, warn };
}

test("without a key nothing is signed, and the caller may retry", async () => {
  const { ring } = await ringOf();
  expect(() => ring.active()).toThrow(unavailable);
});

test("the active key signs; a next or retired one does not, whatever there is", async () => {
  const [next, active, retired] = [await keyRow("next"), await keyRow("active"), await keyRow("retired")];
  const { ring } = await ringOf(next, active, retired);
  expect(ring.active().id).toBe(active.id);
  const { ring: without } = await ringOf(next, retired);
  expect(() => without.active()).toThrow(unavailable);
});

test("an active key without its private half does not sign", async () => {
  const { ring } = await ringOf({ ...(await keyRow("active")), privateEncrypted: null });
  expect(() => ring.active()).toThrow(unavailable);
});

test("when the active key is banned the next one signs, and the banned one is refused and shown no more", async () => {
  const [next, active] = [await keyRow("next"), await keyRow("active")];
  const { ring } = await ringOf(next, active);
  ring.ban(active.id);
  expect(ring.active().id).toBe(next.id);
  expect(ring.find(active.id)).toMatchObject({ id: active.id, state: "revoked" });
  expect(ring.find(active.id)).not.toHaveProperty("privateKey");
  expect(ring.publicJwks().keys.map(({ kid }) => kid)).toEqual([next.id]);
  await ring.reload();
  expect(ring.find(active.id)).toMatchObject({ state: "revoked" });
  expect(ring.find(active.id)).not.toHaveProperty("privateKey");
});

test("a retired key is shown until the last access token that it may have signed has ended", async () => {
  const retired = { ...(await keyRow("retired")), retiredAt: new Date(1_000_000) };
  const { ring, stored } = await ringOf(await keyRow("active"), retired);
  const shown = () => ring.publicJwks().keys.map(({ kid }) => kid);
  stored.nowMs = 1_000_000 + (60 + 900 + 10) * 1_000 - 1;
  expect(shown()).toContain(retired.id);
  stored.nowMs += 1;
  expect(shown()).toHaveLength(1);
  // For refresh tokens of the session.
  expect(ring.find(retired.id)?.id).toBe(retired.id);
});

test("a ban of a key that is not known yet holds when the key is read", async () => {
  const [active, later] = [await keyRow("active"), await keyRow("next")];
  const { ring, stored } = await ringOf(active);
  ring.ban(later.id);
  expect(ring.list().map(({ id }) => id)).toEqual([active.id]);
  stored.rows = [later, active];
  await ring.reload();
  expect(ring.find(later.id)?.state).toBe("revoked");
  expect(ring.active().id).toBe(active.id);
});

test("calls that come while the keys are read share the read; the next call reads again", async () => {
  const { ring, stored } = await ringOf(await keyRow("active"));
  const before = stored.reads;
  await Promise.all([ring.reload(), ring.reload()]);
  expect(stored.reads).toBe(before + 1);
  await ring.reload();
  expect(stored.reads).toBe(before + 2);
});

test("the keys are read again only when the log names others than those in use", async () => {
  const [next, active, revoked] = [await keyRow("next"), await keyRow("active"), await keyRow("revoked")];
  const { ring, stored } = await ringOf(next, active, revoked);
  const readsFor = async (...keyIds: string[]) => {
    const before = stored.reads;
    ring.follow(keyIds);
    const reads = stored.reads - before;
    await ring.reload();
    return reads;
  };
  expect(await readsFor(active.id, next.id)).toBe(0);
  expect(await readsFor(active.id)).toBe(1);
  expect(await readsFor(active.id, next.id, "another")).toBe(1);
  expect(await readsFor(active.id, "another")).toBe(1);
  expect(await readsFor(active.id, revoked.id)).toBe(1);
});

test("keys that cannot be read when the log names others are reported, and the old ones stay", async () => {
  const active = await keyRow("active");
  const { ring, stored, warn } = await ringOf(active);
  stored.wait = Promise.reject(new Error("away"));
  ring.follow([]);
  await vi.waitFor(() => expect(warn).toHaveBeenCalledTimes(1), { interval: 2, timeout: 60_000 });
  expect(ring.active().id).toBe(active.id);
});

test("a thousand callers may wait for an unknown key; the next must retry later", async () => {
  const active = await keyRow("active");
  const { ring, stored } = await ringOf(active);
  const held = Promise.withResolvers<void>();
  stored.wait = held.promise;
  const waiting = Array.from({ length: 1_000 }, () => ring.findAgain("unknown"));
  await expect(ring.findAgain("unknown")).rejects.toEqual(unavailable);
  held.resolve();
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([undefined]));
  expect((await ring.findAgain(active.id))?.id).toBe(active.id);
});

test("callers that wait for an unknown key share one read, which begins after their calls", async () => {
  const [active, later] = [await keyRow("active"), await keyRow("next")];
  const { ring, stored } = await ringOf(active);
  const held = Promise.withResolvers<void>();
  stored.wait = held.promise;
  const early = ring.reload(); // reads what was before the key was made
  stored.rows = [later, active];
  const before = stored.reads;
  const found = [ring.findAgain(later.id), ring.findAgain(later.id)];
  held.resolve();
  await early;
  expect((await Promise.all(found)).map((key) => key?.id)).toEqual([later.id, later.id]);
  expect(stored.reads).toBe(before + 1);
});
