import { createSecretKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import {
  generateSigningKey,
  importPrivateKey,
  importPublicKey,
  type SigningKey,
} from "../keys/signing-key.ts";
import type { SessionRow } from "../rows/session-store.ts";
import { assertMaySign, signPair } from "./sign-pair.ts";

const made = await generateSigningKey("EdDSA");
const key: SigningKey & { privateKey: NonNullable<SigningKey["privateKey"]> } = {
  id: made.id,
  algorithm: "EdDSA",
  state: "active",
  publicJwk: made.publicJwk,
  publicKey: importPublicKey(made.publicJwk, "EdDSA"),
  privateKey: importPrivateKey(made.privateJwk),
  refreshSecret: createSecretKey(randomBytes(32)),
  createdAt: new Date(0),
  activatedAt: null,
  retiredAt: null,
};
const ISSUER = "https://auth.example";
const deps = {
  issuer: ISSUER,
  lifetimes: { accessTtlS: 900, refreshIdleTtlS: 604_800, sessionAbsoluteTtlS: 2_592_000, refreshGraceS: 10 },
  keys: { active: () => key },
  assertClock: () => undefined,
};
const ROTATED_S = 1_000_000;
const UUID = "018f4a2e-0000-7000-8000-00000000000a";
const session: SessionRow = {
  id: UUID,
  userId: UUID,
  role: "ADMIN",
  amr: ["pwd", "otp"],
  acr: 2,
  authTime: new Date(500_900),
  tokenSecret: Buffer.alloc(32, 1),
  generation: 3,
  rotatedAt: new Date(ROTATED_S * 1_000 + 700),
  jkt: null,
  x5tS256: null,
  leafSeen: false,
  deviceKey: null,
  deviceProofs: 0,
  createdAt: new Date(0),
  lastUsedAt: new Date(0),
  idleEnd: new Date((ROTATED_S + 604_800) * 1_000 + 700),
  idleS: null,
  absoluteEnd: new Date((ROTATED_S + 2_592_000) * 1_000),
  revokedAt: null,
  ip: "",
  userAgent: "",
};
const signedAfter = (seconds: number, changes: Partial<SessionRow> = {}) =>
  signPair(deps, { ...session, ...changes }, new Date((ROTATED_S + seconds) * 1_000 + 900));

function claimsOf(token: string): Record<string, unknown> {
  const parsed = parseCompactJws(token);
  if (typeof parsed === "string") throw new Error(parsed);
  return parsed.payload;
}

test("a pair has the claims and the lifetimes of its session", () => {
  const pair = signedAfter(0);
  expect(pair).toMatchObject({ expiresInS: 900, sessionId: UUID, userId: UUID });
  expect(claimsOf(pair.accessToken)).toEqual({
    iss: ISSUER,
    aud: ISSUER,
    sub: UUID,
    client_id: "gatehouse",
    sid: UUID,
    jti: expect.stringMatching(/^3\.[A-Za-z0-9_-]{22}$/),
    iat: ROTATED_S,
    exp: ROTATED_S + 900,
    role: "ADMIN",
    amr: ["pwd", "otp"],
    acr: "urn:gatehouse:acr:2",
    auth_time: 500,
  });
  expect(claimsOf(pair.refreshToken)).toEqual({
    iss: ISSUER,
    aud: `${ISSUER}/auth/refresh`,
    sub: UUID,
    sid: UUID,
    jti: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/),
    gen: 3,
    iat: ROTATED_S,
    exp: ROTATED_S + 604_800,
  });
});

test("repeated requests get the same pair for half of the access token's life, then a new access token", () => {
  const [first, half, later] = [signedAfter(0), signedAfter(450), signedAfter(451)];
  expect([half.accessToken, half.refreshToken]).toEqual([first.accessToken, first.refreshToken]);
  expect(half.expiresInS).toBe(450);
  expect(later.refreshToken).toBe(first.refreshToken);
  expect(claimsOf(later.accessToken)).toMatchObject({ iat: ROTATED_S + 451, exp: ROTATED_S + 1_351 });
  expect(later.expiresInS).toBe(900);
  expect(claimsOf(later.accessToken).jti).not.toBe(claimsOf(first.accessToken).jti);
});

test("an access token ends with its session, and no time is left when that is over", () => {
  const idleEnd = new Date((ROTATED_S + 60) * 1_000 + 900);
  expect(claimsOf(signedAfter(0, { idleEnd }).accessToken).exp).toBe(ROTATED_S + 60);
  expect([0, 60, 61].map((seconds) => signedAfter(seconds, { idleEnd }).expiresInS)).toEqual([60, 0, 0]);
});

test("each generation, and each use, has an identifier of its own", () => {
  const pairs = [signedAfter(0), signedAfter(0, { generation: 4 })];
  const ids = pairs.flatMap(({ accessToken, refreshToken }) => [
    String(claimsOf(accessToken).jti).split(".")[1],
    claimsOf(refreshToken).jti,
  ]);
  expect(new Set(ids).size).toBe(4);
});

test("nothing is signed with a wrong clock or without a key", () => {
  const fail = () => {
    throw new DomainError("service_unavailable");
  };
  const refusal = expect.objectContaining({ code: "service_unavailable" });
  expect(() => assertMaySign(deps)).not.toThrow();
  expect(() => assertMaySign({ ...deps, assertClock: fail })).toThrow(refusal);
  expect(() => assertMaySign({ ...deps, keys: { active: fail } })).toThrow(refusal);
  expect(() => signPair({ ...deps, assertClock: fail }, session, new Date())).toThrow(refusal);
});

test("the longest token of a user fits, and one that everybody would refuse is an error", () => {
  const longest = {
    role: "R".repeat(32),
    amr: Array.from({ length: 8 }, (_, index) => `${index}`.repeat(32)),
    generation: 9_999_999_999,
    x5tS256: "A".repeat(43),
  };
  const now = new Date(ROTATED_S * 1_000);
  const signedFor = (issuer: string) =>
    signPair({ ...deps, issuer }, { ...session, ...longest }, now).accessToken;
  const issuer = `https://${"i".repeat(248)}`;
  expect(signedFor(issuer).length).toBeLessThanOrEqual(4_096);
  const room = () => Math.floor((4_096 - signedFor(issuer).length) / (8 / 3));
  expect(signedFor(issuer + "i".repeat(room())).length).toBeGreaterThan(4_090);
  expect(() => signedFor(issuer + "i".repeat(room() + 4))).toThrow("The token would be too long");
});
