import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { expect, test } from "vitest";
import { isForged, isRefreshTokenForm, screenToken, toTokenRules } from "./token-rules.ts";

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const HEADER = { alg: "EdDSA", typ: "rt+jwt", kid: "A".repeat(43) };
const SIGNATURE = Buffer.alloc(64, 1).toString("base64url");
const token = (header: unknown, signature = SIGNATURE, payload: unknown = { gen: 1 }) =>
  `${part(header)}.${part(payload)}.${signature}`;

const MAC = Buffer.alloc(32, 1).toString("base64url");

test("what token-service makes has the form of a refresh token, whichever key it is of", () => {
  expect(isRefreshTokenForm(token({ ...HEADER, alg: "HS256" }, MAC))).toBe(true);
  expect(isRefreshTokenForm(token(HEADER))).toBe(true);
  expect(isRefreshTokenForm(token({ ...HEADER, alg: "ES256", kid: "B".repeat(43) }))).toBe(true);
});

test.each([
  ["no token", "garbage"],
  ["empty objects", "e30.e30.e30"],
  ["an access token", token({ ...HEADER, typ: "at+jwt" })],
  ["another algorithm", token({ ...HEADER, alg: "HS512" }, MAC)],
  ["a code that is too long", token({ ...HEADER, alg: "HS256" })],
  ["a code that is too short", token({ ...HEADER, alg: "HS256" }, Buffer.alloc(31, 1).toString("base64url"))],
  ["a signature of the length of a code", token(HEADER, MAC)],
  ["a key name that is none", token({ ...HEADER, kid: "../../keys" })],
  ["another member in the header", token({ ...HEADER, jwk: {} })],
  ["a signature that is too short", token(HEADER, Buffer.alloc(63, 1).toString("base64url"))],
  ["no signature", token(HEADER, "")],
])("%s has not", (_, text) => {
  expect(isRefreshTokenForm(text)).toBe(false);
});

const ISSUER = "https://auth.example";
const RULES = toTokenRules({
  issuer: ISSUER,
  keys: [
    { keyId: "A".repeat(43), algorithm: "EdDSA", publicKey: Buffer.alloc(0) },
    { keyId: "B".repeat(43), algorithm: "ES256", publicKey: Buffer.alloc(0) },
  ],
});
const EXP_S = 1_000;
const PAYLOAD = { iss: ISSUER, aud: ISSUER, exp: EXP_S };
const access = (header: object = {}, payload: object = {}, signature = SIGNATURE) =>
  token({ ...HEADER, typ: "at+jwt", ...header }, signature, { ...PAYLOAD, ...payload });

test.each([
  ["a token of a key that was sent", access(), "plausible"],
  ["a token of another one", access({ alg: "ES256", kid: "B".repeat(43) }), "plausible"],
  ["no token", "garbage", "invalid"],
  ["a refresh token", access({ typ: "rt+jwt" }), "invalid"],
  ["a key name that is none", access({ kid: "../../keys" }), "invalid"],
  ["a signature that is too short", access({}, {}, Buffer.alloc(63, 1).toString("base64url")), "invalid"],
  ["a signature that is too long", access({}, {}, Buffer.alloc(65, 1).toString("base64url")), "invalid"],
  ["another issuer", access({}, { iss: "https://other.example" }), "invalid"],
  ["another audience", access({}, { aud: "https://other.example" }), "other_audience"],
  ["another audience, with a strange algorithm", access({ alg: "none" }, { aud: "x" }), "invalid"],
  ["no end", access({}, { exp: undefined }), "invalid"],
  ["an end that is no number", access({}, { exp: "1000" }), "invalid"],
  ["another algorithm than its key's", access({ alg: "ES256" }), "invalid"],
  ["a code", access({ alg: "HS256" }, {}, MAC), "invalid"],
  ["a code of the length of a signature", access({ alg: "HS256" }), "invalid"],
  ["a key that was not sent", access({ kid: "C".repeat(43) }), "unknown_key"],
  ["a key that has left, whose end is past", access({ kid: "C".repeat(43) }, { exp: 1 }), "expired"],
  ["a key that was not sent, with ES256", access({ kid: "C".repeat(43), alg: "ES256" }), "unknown_key"],
  [
    "a key that was not sent, with a strange algorithm",
    access({ kid: "C".repeat(43), alg: "none" }),
    "invalid",
  ],
])("%s is screened", (_what, text, expected) => {
  expect(screenToken(text, RULES, EXP_S * 1_000)).toBe(expected);
});

test("a token is over for certain ten seconds after its end, and never while token-service's time is not known", () => {
  const verdicts = [1_009_999, 1_010_000, undefined].map((nowMs) => screenToken(access(), RULES, nowMs));
  expect(verdicts).toEqual(["plausible", "expired", "plausible"]);
});

const PAIRS = {
  EdDSA: generateKeyPairSync("ed25519"),
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
};
const derOf = (key: KeyObject) => key.export({ type: "spki", format: "der" });

function signedAccess(alg: "EdDSA" | "ES256"): string {
  const input = access({ alg }).split(".").slice(0, 2).join(".");
  const key = { key: PAIRS[alg].privateKey, dsaEncoding: "ieee-p1363" as const };
  return `${input}.${sign(alg === "EdDSA" ? null : "sha256", Buffer.from(input), key).toString("base64url")}`;
}

test.each(["EdDSA", "ES256"] as const)("what is not signed by the key that it names is forged: %s", (alg) => {
  const rulesWith = (publicKey: Uint8Array, algorithm: string = alg) =>
    toTokenRules({ issuer: ISSUER, keys: [{ keyId: HEADER.kid, algorithm, publicKey }] });
  const ours = rulesWith(derOf(PAIRS[alg].publicKey));
  const good = signedAccess(alg);
  expect(screenToken(good, ours, EXP_S * 1_000)).toBe("plausible");
  expect(isForged(good, ours)).toBe(false);
  const input = good.slice(0, good.lastIndexOf("."));
  const changed = access({ alg }, { sub: "root" });
  for (const forged of [
    access({ alg }),
    `${changed.slice(0, changed.lastIndexOf("."))}${good.slice(input.length)}`,
  ])
    expect(isForged(forged, ours)).toBe(true);
  const another =
    alg === "EdDSA" ? generateKeyPairSync("ed25519") : generateKeyPairSync("ec", { namedCurve: "P-256" });
  expect(isForged(good, rulesWith(derOf(another.publicKey)))).toBe(true);
  // Only token-service can decide: a key that is not sent, cannot be read, or is of a later kind, or another's key.
  const unknown = [
    rulesWith(Buffer.alloc(0)),
    rulesWith(Buffer.from("no key")),
    rulesWith(derOf(PAIRS[alg].publicKey), "ES384"),
  ];
  for (const rules of unknown) expect(isForged(access({ alg }), rules)).toBe(false);
  expect(isForged(access({ alg, kid: "C".repeat(43) }), ours)).toBe(false);
});

test("a key of another algorithm forges nothing", () => {
  const rules = toTokenRules({
    issuer: ISSUER,
    keys: [{ keyId: HEADER.kid, algorithm: "ES256", publicKey: derOf(PAIRS.EdDSA.publicKey) }],
  });
  expect(isForged(signedAccess("ES256"), rules)).toBe(false);
});
