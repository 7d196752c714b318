import { createHmac, generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import fc from "fast-check";
import { generateKeyPair, SignJWT } from "jose";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  logIn,
  startTokenReplica,
  TEST_ISSUER,
  type TokenReplica,
} from "#tests/support/system/token-service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { revokeSession } from "../sessions/revoke-session.ts";
import type { TokenPair } from "./sign-pair.ts";
import { type Refusal, verifyToken } from "./verify-token.ts";

let database: TestDatabase;
let replica: TokenReplica;
let pair: TokenPair;
const userId = randomUUID();

beforeAll(async () => {
  database = await createTestDatabase("token-service");
  // Its own clock stands: on a busy machine the log is read too late to verify anything.
  replica = await startTokenReplica(database.sql, { uptime: { ms: 0 } });
  pair = await logIn(replica, userId);
});

afterEach(() => replica.deps.verified.clear());

afterAll(async () => {
  replica.stop();
  await database.drop();
});

const verdictOf = (token: string) => verifyToken(replica.deps, token);

function goodClaims(): Record<string, unknown> {
  const parsed = parseCompactJws(pair.accessToken);
  if (typeof parsed === "string") throw new Error(parsed);
  return parsed.payload;
}

/** A token signed with our real key: only what it says is wrong. */
function signed(claims: Record<string, unknown>, header: Record<string, unknown> = {}): Promise<string> {
  const key = replica.deps.keys.active();
  return new SignJWT(claims)
    .setProtectedHeader({ alg: "EdDSA", typ: "at+jwt", kid: key.id, ...header })
    .sign(key.privateKey);
}

function encode(header: unknown, payload: unknown, signature = "c2lnbmF0dXJl"): string {
  const part = (value: unknown) =>
    Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
  return `${part(header)}.${part(payload)}.${signature}`;
}

async function expectRefusal(token: string, refusal: Refusal): Promise<void> {
  expect(await verdictOf(token)).toEqual({ active: false, refusal });
}

test("a new token is valid, with its user, session and authentication", async () => {
  expect(await verdictOf(pair.accessToken)).toMatchObject({
    active: true,
    token: {
      claims: {
        sub: userId,
        sid: pair.sessionId,
        iss: TEST_ISSUER,
        aud: TEST_ISSUER,
        role: "USER",
        amr: ["pwd"],
      },
    },
  });
});

test("the test's own signer makes good tokens, so that what follows is refused for what it changes", async () => {
  expect(await verdictOf(await signed(goodClaims()))).toMatchObject({ active: true });
});

test("a generation that no session reaches, of a thief of the key, keeps no other's use from being noted", async () => {
  const { accessToken, sessionId } = await logIn(replica, randomUUID());
  await verdictOf(await signed({ ...goodClaims(), jti: `9999999999.${"A".repeat(22)}` }));
  await verdictOf(accessToken);
  await replica.deps.leaves.flush();
  const [row] = await database.sql`select leaf_seen from sessions where id = ${sessionId}`;
  expect(row).toEqual({ leaf_seen: true });
});

test("every single-byte mutation of a real token is refused, at each position and by three values", {
  tags: "exhaustive",
}, async () => {
  const { accessToken } = pair;
  const accepted: string[] = [];
  for (let position = 0; position < accessToken.length; position += 1) {
    for (const value of ["A", "_", String.fromCharCode(accessToken.charCodeAt(position) ^ 1)]) {
      const mutated = accessToken.slice(0, position) + value + accessToken.slice(position + 1);
      if (mutated !== accessToken && (await verdictOf(mutated)).active) accepted.push(`${position} ${value}`);
    }
  }
  expect(accepted).toEqual([]);
});

test("no made-up text is valid, and none breaks the verifier", async () => {
  const segment = fc.stringMatching(/^[A-Za-z0-9_-]{0,80}$/);
  const looksLikeOne = fc.tuple(segment, segment, segment).map((parts) => parts.join("."));
  const spliced = fc
    .tuple(fc.nat(pair.accessToken.length), fc.string({ maxLength: 20 }))
    .map(([at, text]) => pair.accessToken.slice(0, at) + text + pair.accessToken.slice(at));
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.string(), looksLikeOne, spliced), async (text) => {
      fc.pre(text !== pair.accessToken);
      expect((await verdictOf(text)).active).toBe(false);
    }),
    { numRuns: 1_000 },
  );
});

describe("form", () => {
  test.each<[string, (token: string) => string, Refusal]>([
    ["nothing", () => "", "form"],
    ["two segments", (token) => token.slice(0, token.lastIndexOf(".")), "form"],
    ["four segments", (token) => `${token}.`, "form"],
    ["padding", (token) => `${token}=`, "form"],
    ["a space behind", (token) => `${token} `, "form"],
    ["a line break behind", (token) => `${token}\n`, "form"],
    ["more than 4,096 characters", (token) => token + "A".repeat(4_096), "length"],
    ["a JWE", () => "a.b.c.d.e", "form"],
    ["standard base64", (token) => token.replaceAll("-", "+").replaceAll("_", "/").replace(/^/, "+"), "form"],
  ])("%s", (_name, forge, refusal) => expectRefusal(forge(pair.accessToken), refusal));

  test("another spelling of the signature's last character", async () => {
    const last = pair.accessToken.slice(-1);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const index = alphabet.indexOf(last);
    for (let low = 0; low < 4; low += 1) {
      const other = alphabet[(index & ~3) | low] ?? "";
      if (other !== last) expect((await verdictOf(pair.accessToken.slice(0, -1) + other)).active).toBe(false);
    }
  });
});

describe("header", () => {
  const key = () => replica.deps.keys.active();
  const { publicKey } = generateKeyPairSync("ed25519");

  test.each<[string, Record<string, unknown>]>([
    ["jwk", { jwk: publicKey.export({ format: "jwk" }) }],
    ["jku", { jku: "http://127.0.0.1:1/jwks.json" }],
    ["x5u", { x5u: "file:///etc/passwd" }],
    ["x5c", { x5c: ["MIIB"] }],
    ["cty", { cty: "JWT" }],
    ["an own member", { role: "ADMIN" }],
  ])("a member %s is refused, not ignored", async (_name, extra) => {
    await expectRefusal(await signed(goodClaims(), extra), "header");
  });

  test.each([
    ["crit", { crit: ["exp"] }],
    ["b64", { b64: true }],
    ["kid as a number", { kid: 7 }],
  ])("%s", async (_name, extra) => {
    const header = { alg: "EdDSA", typ: "at+jwt", kid: key().id, ...extra };
    await expectRefusal(encode(header, goodClaims()), "header");
  });

  test.each([
    ["a member twice", (kid: string) => `{"alg":"none","alg":"EdDSA","typ":"at+jwt","kid":"${kid}"}`],
    ["white space", (kid: string) => `{"alg": "EdDSA","typ":"at+jwt","kid":"${kid}"}`],
    ["an escape", (kid: string) => `{"\\u0061lg":"EdDSA","typ":"at+jwt","kid":"${kid}"}`],
    ["an array", () => "[]"],
    ["null", () => "null"],
    ["a byte order mark", (kid: string) => `\uFEFF{"alg":"EdDSA","typ":"at+jwt","kid":"${kid}"}`],
  ])("%s", (_name, header) => expectRefusal(encode(header(key().id), goodClaims()), "header"));

  test.each(["JWT", "application/at+jwt", "AT+JWT", "id+jwt", "logout+jwt", "rt+jwt", ""])(
    "typ %j",
    async (typ) => {
      await expectRefusal(await signed(goodClaims(), { typ }), "typ");
    },
  );

  test.each(["none", "None", "nOnE", "HS256", "RS256", "PS256", "ES384", "EdDSA2"])("alg %s", (alg) =>
    expectRefusal(encode({ alg, typ: "at+jwt", kid: key().id }, goodClaims()), "alg"),
  );

  test("an algorithm of ours that is not the key's", () =>
    expectRefusal(encode({ alg: "ES256", typ: "at+jwt", kid: key().id }, goodClaims()), "alg"));

  test("HS256 with our public key as the secret, in each spelling of it", async () => {
    const { publicJwk } = key();
    const secrets = [
      JSON.stringify(publicJwk),
      publicJwk.x ?? "",
      Buffer.from(publicJwk.x ?? "", "base64url"),
    ];
    for (const secret of secrets) {
      const unsigned = encode({ alg: "HS256", typ: "at+jwt", kid: key().id }, goodClaims(), "");
      const signature = createHmac("sha256", secret).update(unsigned.slice(0, -1)).digest("base64url");
      await expectRefusal(unsigned + signature, "alg");
    }
  });

  test("a key that is not ours, by its own name and by ours", async () => {
    const { privateKey } = await generateKeyPair("EdDSA");
    const sign = (kid: string) =>
      new SignJWT(goodClaims()).setProtectedHeader({ alg: "EdDSA", typ: "at+jwt", kid }).sign(privateKey);
    await expectRefusal(await sign("stranger"), "kid");
    await expectRefusal(await sign(key().id), "signature");
  });

  test("ten thousand unknown key names make at most four looks at the database a second", async () => {
    let looks = 0;
    const reload = replica.deps.keys.reload.bind(replica.deps.keys);
    replica.deps.keys.reload = () => {
      looks += 1;
      return reload();
    };
    const startedMs = performance.now();
    const verify = async () => {
      const kid = randomBytes(32).toString("base64url");
      const verdict = await verifyToken(
        replica.deps,
        encode({ alg: "EdDSA", typ: "at+jwt", kid }, goodClaims()),
      );
      return verdict.active ? "active" : verdict.refusal;
    };
    for (let index = 0; index < 10_000; index += 1_000) {
      const verdicts = await Promise.all(Array.from({ length: 1_000 }, verify));
      expect(new Set(verdicts)).toEqual(new Set(["kid"]));
    }
    replica.deps.keys.reload = reload;
    expect(looks).toBeLessThanOrEqual(Math.ceil((performance.now() - startedMs) / 250) + 1);
  });

  test.each(["../../x", "", "k".repeat(42), "k".repeat(44), `${"k".repeat(42)}\n`, "k".repeat(2_000)])(
    "a malformed key name causes no look-up: %j",
    async (kid) => {
      const findAgain = () => Promise.reject(new Error("looked"));
      const keys = { find: () => undefined, findAgain };
      const token = encode({ alg: "EdDSA", typ: "at+jwt", kid }, goodClaims());
      expect(await verifyToken({ ...replica.deps, keys }, token)).toEqual({ active: false, refusal: "kid" });
    },
  );
});

test("an unsupported algorithm causes no look-up of a key", async () => {
  const keys = { find: () => undefined, findAgain: () => Promise.reject(new Error("looked")) };
  const kid = randomBytes(32).toString("base64url");
  const token = encode({ alg: "HS256", typ: "at+jwt", kid }, goodClaims());
  expect(await verifyToken({ ...replica.deps, keys }, token)).toEqual({ active: false, refusal: "alg" });
});

describe("claims", () => {
  const nowS = Math.floor(Date.now() / 1_000);

  test.each<[string, Record<string, unknown>, Refusal]>([
    ["another issuer", { iss: "http://other.test" }, "iss"],
    ["the issuer with a slash", { iss: `${TEST_ISSUER}/` }, "iss"],
    ["the issuer in capitals", { iss: TEST_ISSUER.toUpperCase() }, "iss"],
    ["the issuer in an array", { iss: [TEST_ISSUER] }, "claims"],
    ["another audience", { aud: "http://other.test" }, "aud"],
    ["the refresh audience", { aud: `${TEST_ISSUER}/auth/refresh` }, "aud"],
    ["audiences in an array", { aud: [TEST_ISSUER] }, "claims"],
    ["issued in the future", { iat: nowS + 60, exp: nowS + 120 }, "iat"],
    ["not yet good", { nbf: nowS + 60 }, "nbf"],
    ["nbf as text", { nbf: "0" }, "claims"],
    ["bound to a key", { cnf: { jkt: "A".repeat(43) } }, "bound"],
    ["bound to a key of unknown kind", { cnf: { jwk: {} } }, "claims"],
    ["bound to two keys", { cnf: { jkt: "A".repeat(43), "x5t#S256": "A".repeat(43) } }, "claims"],
    ["bound to what is no thumbprint", { cnf: { jkt: "A" } }, "claims"],
    ["bound to nothing", { cnf: {} }, "claims"],
    ["expired", { iat: nowS - 900, exp: nowS - 6 }, "exp"],
    ["living too long", { exp: nowS + 86_400 }, "lifetime"],
    ["ending before it begins", { iat: nowS, exp: nowS - 1 }, "lifetime"],
    ["exp as text", { exp: String(nowS + 60) }, "claims"],
    ["exp with a fraction", { exp: nowS + 60.5 }, "claims"],
    ["a negative iat", { iat: -1 }, "claims"],
    ["what is no role", { role: "root" }, "claims"],
    ["several roles", { role: ["USER", "ADMIN"] }, "claims"],
    ["no method", { amr: [] }, "claims"],
    ["a user that is no UUID", { sub: "admin" }, "claims"],
    ["a session in capitals", { sid: randomUUID().toUpperCase() }, "claims"],
    ["generation 0", { jti: `0.${"A".repeat(22)}` }, "claims"],
  ])("%s", async (_name, change, refusal) =>
    expectRefusal(await signed({ ...goodClaims(), ...change }), refusal),
  );

  test.each(["iss", "aud", "sub", "sid", "jti", "iat", "exp", "role", "amr", "auth_time"])(
    "without %s",
    async (name) => {
      const { [name]: _gone, ...rest } = goodClaims();
      await expectRefusal(await signed(rest), "claims");
    },
  );

  test("an unknown claim of a newer version is accepted", async () => {
    expect(await verdictOf(await signed({ ...goodClaims(), future: 1 }))).toMatchObject({ active: true });
  });

  test("a clock difference below 5 s is tolerated, 5 s is not", async () => {
    const token = await signed({ ...goodClaims(), iat: nowS - 890, exp: nowS });
    const at = (ms: number) => verifyToken({ ...replica.deps, now: () => new Date(ms) }, token);
    expect(await at(nowS * 1_000 + 4_999)).toMatchObject({ active: true });
    expect(await at(nowS * 1_000 + 5_000)).toEqual({ active: false, refusal: "exp" });
  });
});

test("a clock that is behind by 5 s is forgiven, by more it is not; the same for a token that is not yet good", async () => {
  const nowS = Math.floor(Date.now() / 1_000);
  const at = (token: string) => verifyToken({ ...replica.deps, now: () => new Date(nowS * 1_000) }, token);
  const issued = (afterS: number) => signed({ ...goodClaims(), iat: nowS + afterS, exp: nowS + 60 });
  expect(await at(await issued(5))).toMatchObject({ active: true });
  expect(await at(await issued(6))).toEqual({ active: false, refusal: "iat" });
  const begun = (afterS: number) =>
    signed({ ...goodClaims(), iat: nowS, exp: nowS + 60, nbf: nowS + afterS });
  expect(await at(await begun(5))).toMatchObject({ active: true });
  expect(await at(await begun(6))).toEqual({ active: false, refusal: "nbf" });
});

test("a refresh token is no access token", () => expectRefusal(pair.refreshToken, "typ"));

test("a token from memory expires like any other", async () => {
  const clock = { ms: Date.now() };
  const other = await startTokenReplica(database.sql, { clock });
  const { accessToken } = await logIn(other, randomUUID());
  expect(await verifyToken(other.deps, accessToken)).toMatchObject({ active: true });
  clock.ms += 906_000;
  expect(await verifyToken(other.deps, accessToken)).toEqual({ active: false, refusal: "exp" });
  other.stop();
});

test("a token in memory is refused when its session ends", async () => {
  const { accessToken, sessionId } = await logIn(replica, userId);
  expect(await verdictOf(accessToken)).toMatchObject({ active: true });
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  await replica.deps.revocations.refresh();
  await expectRefusal(accessToken, "revoked");
});

test("ES256: tokens of that algorithm are good, and a session outlives the change of algorithm", async () => {
  const other = await createTestDatabase("token-service");
  try {
    const es256 = await startTokenReplica(other.sql, { algorithm: "ES256" });
    const { accessToken } = await logIn(es256, randomUUID());
    expect(parseCompactJws(accessToken)).toMatchObject({ header: { alg: "ES256" } });
    expect(await verifyToken(es256.deps, accessToken)).toMatchObject({ active: true });
    es256.stop();
  } finally {
    await other.drop();
  }
});

test("a token in memory is valid until its last moment, and is then dropped", async () => {
  const clock = { ms: Date.now() };
  const other = await startTokenReplica(database.sql, { clock });
  const { accessToken } = await logIn(other, randomUUID());
  await verifyToken(other.deps, accessToken);
  const [token] = other.deps.verified.values();
  clock.ms = ((token?.claims.exp ?? 0) + 5) * 1_000 - 1;
  expect(await verifyToken(other.deps, accessToken)).toMatchObject({ active: true });
  clock.ms += 1;
  expect(await verifyToken(other.deps, accessToken)).toEqual({ active: false, refusal: "exp" });
  expect(other.deps.verified.size).toBe(0);
  other.stop();
});

test("a token whose key was banned here a moment ago is refused, at its first sight and from memory", async () => {
  const other = await startTokenReplica(database.sql);
  const [{ accessToken }, unseen] = [await logIn(other, randomUUID()), await logIn(other, randomUUID())];
  await verifyToken(other.deps, accessToken);
  const [token] = other.deps.verified.values();
  other.deps.keys.ban(token?.keyId ?? "");
  for (const banned of [unseen.accessToken, accessToken])
    expect(await verifyToken(other.deps, banned)).toEqual({ active: false, refusal: "kid" });
  other.stop();
});

test("a token in memory is revoked once the log names its key, before the keys are read again", async () => {
  await verdictOf(pair.accessToken);
  const { keyId } = [...replica.deps.verified.values()][0] ?? {};
  const revocations = {
    assertFresh: () => undefined,
    isSessionRevoked: () => false,
    isKeyRevoked: (id: string) => id === keyId,
  };
  expect(await verifyToken({ ...replica.deps, revocations }, pair.accessToken)).toEqual({
    active: false,
    refusal: "revoked",
  });
});

test("every refusal is counted and logged, with the session's name once that is known, and is no use of a leaf", async () => {
  const seen: unknown[] = [];
  const logged: unknown[] = [];
  const counted: Refusal[] = [];
  const deps = {
    ...replica.deps,
    leaves: { saw: (leaf: unknown) => void seen.push(leaf) },
    logRefusal: (facts: unknown) => void logged.push(facts),
    countRefusal: (refusal: Refusal) => void counted.push(refusal),
  };
  const { accessToken, sessionId } = await logIn(replica, userId);
  await verifyToken(deps, accessToken);
  await verifyToken(deps, accessToken);
  await verifyToken(deps, "garbage");
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  await replica.deps.revocations.refresh();
  await verifyToken(deps, accessToken);
  expect(seen).toEqual([{ sessionId, generation: 1 }]);
  expect(counted).toEqual(["form", "revoked"]);
  expect(logged).toEqual([
    { refusal: "form", session: undefined },
    { refusal: "revoked", session: expect.stringMatching(/^[0-9a-f]{12}$/) },
  ]);
});

test("a token in memory whose key is not known any more is refused", async () => {
  const other = await startTokenReplica(database.sql);
  const { accessToken } = await logIn(other, randomUUID());
  await verifyToken(other.deps, accessToken);
  const keys = { find: () => undefined, findAgain: async () => undefined };
  expect(await verifyToken({ ...other.deps, keys }, accessToken)).toEqual({ active: false, refusal: "kid" });
  other.stop();
});
