import { generateKeyPairSync, sign } from "node:crypto";
import { EventEmitter, on } from "node:events";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { PrincipalKind } from "#proto/gatehouse/token/v1/principal.ts";
import {
  InactiveReason,
  type TokenServiceServer,
  TokenServiceService,
  type VerifyTokenResponse,
  type WatchRevocationsResponse,
} from "#proto/gatehouse/token/v1/token_service.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import type { Verification } from "./principal.ts";
import { TokenVerifier, type TokenVerifierOptions } from "./token-verifier.ts";

/** A fake token-service; `token-verifier.db.test.ts` uses the real one. */
const ISSUER = "https://auth.example";
const KEY_ID = "K".repeat(43);
const NEW_KEY_ID = "N".repeat(43);
const RULES = { issuer: ISSUER, keys: [{ keyId: KEY_ID, algorithm: "EdDSA", publicKey: Buffer.alloc(0) }] };

let certificates: TestCertificates;
let server: RpcServer;
let port: number;
let verifiers: TokenVerifier[];
let metrics: Metrics;
/** The answer of VerifyToken, and the tokens of its calls. */
let answer: (token: string) => Partial<VerifyTokenResponse> | Promise<Partial<VerifyTokenResponse>>;
let asked: string[];
let budgetMs: number;
/** The first message of each stream; `send` sends more. */
let first: Partial<WatchRevocationsResponse> | undefined;
let watchers = 0;
const messages = new EventEmitter();

const message = (changes: Partial<WatchRevocationsResponse>): WatchRevocationsResponse => ({
  revocations: [],
  sequence: 0,
  tip: "",
  caughtUp: true,
  readAt: new Date(),
  keepS: 910,
  elapsedMs: 0,
  rules: undefined,
  part: undefined,
  ...changes,
});
const send = (changes: Partial<WatchRevocationsResponse> = {}) => messages.emit("send", changes);

/** Sends it again and again, as heartbeats do: a read counts as made when its stream was opened here, or later. */
async function sendUntil<T>(isDone: Promise<T>, changes?: Partial<WatchRevocationsResponse>): Promise<T> {
  const heartbeat = setInterval(() => send(changes), 5);
  return isDone.finally(() => clearInterval(heartbeat));
}

const implementation: Implementation<TokenServiceServer> = {
  async verifyToken({ token }, { deadlineMs }) {
    asked.push(token);
    budgetMs = deadlineMs - Date.now();
    return { active: false, reason: 0, principal: undefined, expiresInMs: 0, ...(await answer(token)) };
  },
  async *watchRevocations(_request, { signal }) {
    watchers += 1;
    const beganMs = performance.now();
    const elapsed = () => ({ elapsedMs: Math.floor(performance.now() - beganMs) });
    try {
      if (first !== undefined) yield message({ ...elapsed(), ...first });
      for await (const [changes] of on(messages, "send", { signal }))
        yield message({ ...elapsed(), ...changes });
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      watchers -= 1;
    }
  },
  async getJwks() {
    return { jwksJson: "{}", maxAgeS: 1, issuer: "" };
  },
};

beforeAll(async () => {
  certificates = await createTestCertificates();
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
  });
  const callers = { verifyToken: ["gateway"], watchRevocations: ["gateway"], getJwks: [] };
  server.add(TokenServiceService, callers, implementation);
  port = await server.listen();
});

beforeEach(() => {
  verifiers = [];
  asked = [];
  first = { rules: RULES };
  answer = () => active();
});

afterEach(async () => {
  vi.restoreAllMocks();
  for (const verifier of verifiers) verifier.close();
  await vi.waitFor(() => expect(watchers).toBe(0), { interval: 2, timeout: 60_000 });
});

afterAll(async () => {
  await server.close(0);
  await certificates.remove();
});

/** Calls have ten seconds, or what they have by `DEFAULTS`: a busy machine is slow, not broken. */
const DEFAULTS = {};

async function createVerifier(
  options: Partial<TokenVerifierOptions> = { callTimeoutMs: 10_000 },
): Promise<TokenVerifier> {
  metrics = createMetrics("gateway");
  const verifier = new TokenVerifier({
    address: `127.0.0.1:${port}`,
    certificate: certificates.of("gateway"),
    logger: pino({ level: "silent" }),
    metrics,
    ...options,
  });
  verifiers.push(verifier);
  await vi.waitFor(() => verifier.assertReady(), { interval: 2, timeout: 60_000 });
  return verifier;
}

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const SIGNATURE = Buffer.alloc(64, 1).toString("base64url");
let made = 0;

/** A unique token. */
function tokenOf(payload: object = {}, kid = KEY_ID): string {
  made += 1;
  const exp = Math.floor(Date.now() / 1_000) + 600;
  const claims = { iss: ISSUER, aud: ISSUER, exp, jti: `${made}`, sub: "u", sid: "s", role: "ADMIN" };
  return `${part({ alg: "EdDSA", typ: "at+jwt", kid })}.${part({ ...claims, ...payload })}.${SIGNATURE}`;
}

const soon = () => new Date(Date.now() + 600_000);
const principal = () => ({
  userId: "u",
  sessionId: "s",
  role: "ADMIN",
  tokenId: "t",
  keyId: KEY_ID,
  amr: ["pwd"],
  acr: "urn:gatehouse:acr:1",
  authTime: new Date(1_000),
  issuedAt: new Date(2_000),
  expiresAt: soon(),
});
const active = (changes: object = {}): Partial<VerifyTokenResponse> => ({
  active: true,
  principal: {
    ...principal(),
    kind: PrincipalKind.USER,
    clientId: "",
    scopes: [],
    confirmation: undefined,
    audience: ISSUER,
    ...changes,
  },
  expiresInMs: 600_000,
});

/** The verdict, or the code of the error. */
const verdictOf = async (verify: () => Verification | Promise<Verification>) => {
  try {
    const verdict = await verify();
    return verdict.kind === "active" ? "active" : verdict.reason;
  } catch (error) {
    return (error as DomainError).code;
  }
};

/** Advances the monotonic clock by so many milliseconds, or stops it. */
function setUptime(ms: (realMs: number) => number): void {
  const real = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => ms(real()));
}

test("an answer with a role is a principal with it", async () => {
  const verifier = await createVerifier();
  const expiresAt = soon();
  answer = () => active({ role: "SUPPORT", expiresAt });
  expect(await verifier.verify(tokenOf(), undefined)).toEqual({
    kind: "active",
    principal: { ...principal(), kind: "user", clientId: "", scopes: [], role: "SUPPORT", acr: 1, expiresAt },
  });
});

test("an answer that does not repeat the audience was not checked for it, and is refused", async () => {
  const verifier = await createVerifier({ audience: "payments" });
  for (const [audience, verdict] of [
    ["", "invalid"],
    [ISSUER, "invalid"],
    ["payments", "active"],
  ]) {
    answer = () => active({ audience });
    expect(await verdictOf(() => verifier.verify(tokenOf({ aud: "payments" }), undefined))).toBe(verdict);
  }
});

test.each([
  ["urn:gatehouse:acr:3", ["hwk", "user"], 3],
  ["urn:gatehouse:acr:2", ["pwd", "otp", "mfa"], 2],
  ["urn:gatehouse:acr:1", ["pwd", "otp", "mfa"], 1],
])("the context %j with the methods %j is the level %i", async (acr, amr, level) => {
  const verifier = await createVerifier();
  answer = () => active({ acr, amr });
  expect(await verifier.verify(tokenOf(), undefined)).toMatchObject({
    kind: "active",
    principal: { acr: level },
  });
});

test.each([
  ["a user", { userId: "" }],
  ["a session", { sessionId: "" }],
  ["an id of the token", { tokenId: "" }],
  ["a key", { keyId: "" }],
  ["a role", { role: "" }],
  ["a role of a form that is known here", { role: "admin" }],
  ["a kind", { kind: PrincipalKind.UNSPECIFIED }],
  ["a kind that is known here", { kind: 99 }],
  ["a level", { acr: "" }],
  ["a level that is known here", { acr: "urn:gatehouse:acr:4" }],
  ["the time of the login", { authTime: undefined }],
  ["a beginning", { issuedAt: undefined }],
  ["an end", { expiresAt: undefined }],
  ["a check of the key that its token is bound to", { confirmation: { jkt: "A".repeat(43), x5tS256: "" } }],
])("an answer without %s is a refusal", async (_what, changes) => {
  const verifier = await createVerifier();
  answer = () => active(changes);
  expect(await verifier.verify(tokenOf(), undefined)).toEqual({ kind: "inactive", reason: "invalid" });
});

test("a verifier that says that keys are checked gets the key with the principal, from memory too", async () => {
  const verifier = await createVerifier({ boundTokens: "checked" });
  const confirmation = { jkt: "A".repeat(43), x5tS256: "" };
  answer = () => active({ confirmation });
  const token = tokenOf();
  for (const _time of ["asked", "from memory"])
    expect(await verifier.verify(token, undefined)).toMatchObject({
      kind: "active",
      principal: { confirmation },
    });
  answer = () => active({ confirmation: { jkt: "", x5tS256: "" } });
  expect(await verifier.verify(tokenOf(), undefined)).toEqual({ kind: "inactive", reason: "invalid" });
});

const client = {
  kind: PrincipalKind.CLIENT,
  role: "",
  userId: "c",
  clientId: "c",
  scopes: ["a:read"],
};
const API_KEY = `gh_${"0f".repeat(16)}_${"k".repeat(43)}`;

test("a client is a principal without a role, with its scopes", async () => {
  const verifier = await createVerifier();
  answer = () => active({ ...client, keyId: "" });
  expect(await verifier.verify(API_KEY, undefined)).toMatchObject({
    kind: "active",
    principal: {
      kind: "client",
      role: "",
      userId: "",
      clientId: "c",
      scopes: ["a:read"],
      sessionId: "s",
      acr: 1,
    },
  });
});

test.each([
  ["without scopes", { ...client, scopes: [] }],
  ["that is another's", { ...client, clientId: "d" }],
  ["of a later kind", { kind: 9 }],
  ["that is a user without a role", { ...client, kind: PrincipalKind.USER }],
])("a principal %s is refused", async (_what, changes) => {
  const verifier = await createVerifier();
  answer = () => active(changes);
  expect(await verdictOf(() => verifier.verify(tokenOf(), undefined))).toBe("invalid");
});

test("a client's token is refused from memory once its credential or the token itself is revoked", async () => {
  const verifier = await createVerifier();
  for (const target of ["credential", "token"]) {
    const token = tokenOf();
    answer = () => active({ ...client, sessionId: `${target} credential`, tokenId: `${target} token` });
    expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("active");
    const calls = asked.length;
    const revocation = {
      sequence: 1,
      expiresAt: soon(),
      target: { $case: "sessionId", value: `${target} ${target}` },
    };
    send({ revocations: [revocation as never], sequence: 1 });
    await expect
      .poll(() => verdictOf(() => verifier.verify(token, undefined)), { interval: 2 })
      .toBe("revoked");
    expect(asked).toHaveLength(calls);
  }
});

test("an API key is asked for once; a revoked one again, and then refused without a call", async () => {
  const verifier = await createVerifier();
  answer = () => active({ ...client, keyId: "" });
  for (let call = 0; call < 3; call += 1)
    expect(await verdictOf(() => verifier.verify(API_KEY, undefined))).toBe("active");
  expect(asked).toEqual([API_KEY]);
  answer = () => ({ active: false, reason: InactiveReason.REVOKED });
  verifier.refuseSession("s");
  for (let call = 0; call < 3; call += 1)
    expect(await verdictOf(() => verifier.verify(API_KEY, undefined))).toBe("revoked");
  expect(asked).toEqual([API_KEY, API_KEY]);
});

test("a network's random API keys are asked for within its share, other networks' keys as ever", async () => {
  const verifier = await createVerifier();
  answer = () => ({ active: false, reason: InactiveReason.INVALID });
  const keyOf = (index: number) => `gh_${String(index).padStart(32, "0")}_${"k".repeat(43)}`;
  const verdicts: string[] = [];
  for (let index = 0; index < 300; index += 1)
    verdicts.push(await verdictOf(() => verifier.verify(keyOf(index), "192.0.2.1")));
  expect(verdicts.slice(0, 100)).toEqual(Array(100).fill("invalid"));
  expect(verdicts.at(-1)).toBe("too_many_requests");
  answer = () => active({ ...client, keyId: "" });
  expect(await verdictOf(() => verifier.verify(API_KEY, "198.51.100.1"))).toBe("active");
});

test("an answer without a principal is a refusal", async () => {
  const verifier = await createVerifier();
  answer = () => ({ active: true });
  expect(await verifier.verify(tokenOf(), undefined)).toEqual({ kind: "inactive", reason: "invalid" });
});

test.each([
  [InactiveReason.EXPIRED, "expired"],
  [InactiveReason.REVOKED, "revoked"],
])(
  "the refusal of an expired or revoked token (%i) has its subject, and is remembered",
  async (reason, expected) => {
    const verifier = await createVerifier();
    answer = () => ({ reason });
    const token = tokenOf();
    const refusal = {
      kind: "inactive",
      reason: expected,
      subject: { kind: "user", userId: "u", clientId: "", sessionId: "s", role: "ADMIN", scopes: [] },
    };
    expect(await verifier.verify(token, undefined)).toEqual(refusal);
    expect(verifier.verify(token, undefined)).toEqual(refusal);
    expect(asked).toHaveLength(1);
  },
);

test.each([
  ["USER", "USER"],
  ["AUDITOR", "AUDITOR"],
  ["MERCHANT_CLERK", "MERCHANT_CLERK"],
  ["root", undefined],
])("a subject's role is a name: %s", async (role, expected) => {
  const verifier = await createVerifier();
  answer = () => ({ reason: InactiveReason.REVOKED });
  const verdict = await verifier.verify(tokenOf({ role }), undefined);
  expect(verdict).toMatchObject({ reason: "revoked" });
  expect("subject" in verdict && verdict.subject?.role).toBe(expected);
});

test.each([{ sub: 1 }, { sid: 1 }])("a token with %j has no subject", async (payload) => {
  const verifier = await createVerifier();
  answer = () => ({ reason: InactiveReason.REVOKED });
  expect(await verifier.verify(tokenOf(payload), undefined)).toEqual({ kind: "inactive", reason: "revoked" });
});

test.each([InactiveReason.INVALID, InactiveReason.UNSPECIFIED, 99 as InactiveReason])(
  "the refusal of a forged token (%i) has no subject",
  async (reason) => {
    const verifier = await createVerifier();
    answer = () => ({ reason });
    expect(await verifier.verify(tokenOf(), undefined)).toEqual({ kind: "inactive", reason: "invalid" });
  },
);

test("a session refused here is refused with its subject, also during a call", async () => {
  const verifier = await createVerifier();
  const known = tokenOf();
  await verifier.verify(known, undefined);
  const held = Promise.withResolvers<Partial<VerifyTokenResponse>>();
  answer = () => held.promise;
  const underWay = verifier.verify(tokenOf(), undefined);
  verifier.refuseSession("s");
  held.resolve(active());
  const refusal = {
    kind: "inactive",
    reason: "revoked",
    subject: { kind: "user", userId: "u", clientId: "", sessionId: "s", role: "ADMIN", scopes: [] },
  };
  expect(verifier.verify(known, undefined)).toEqual(refusal);
  expect(await underWay).toEqual(refusal);
});

test("tokens of a banned key are refused from memory, and the ban is reported", async () => {
  const banned: string[] = [];
  const verifier = await createVerifier({ onKeyBanned: (keyId) => banned.push(keyId) });
  const token = tokenOf();
  await verifier.verify(token, undefined);
  const target = { $case: "keyId" as const, value: KEY_ID };
  send({ revocations: [{ sequence: 1, target, expiresAt: undefined }], sequence: 1 });
  await vi.waitFor(() => expect(banned).toEqual([KEY_ID]), { interval: 2, timeout: 60_000 });
  expect(verifier.verify(token, undefined)).toMatchObject({ kind: "inactive", reason: "revoked" });
});

test.each(["user", "client"])(
  "the token of a %s that was exchanged for one of a banned key is refused from memory",
  async (kind) => {
    const verifier = await createVerifier();
    answer = () => active({ originKeyId: "B".repeat(43), ...(kind === "client" && client) });
    const token = tokenOf();
    expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("active");
    const target = { $case: "keyId" as const, value: "B".repeat(43) };
    send({ revocations: [{ sequence: 1, target, expiresAt: soon() }], sequence: 1 });
    const reason = () => verifier.verify(token, undefined);
    await expect.poll(reason, { interval: 2, timeout: 60_000 }).toMatchObject({ reason: "revoked" });
    expect(asked).toHaveLength(1);
  },
);

test("the keys are reported", async () => {
  const reported: string[][] = [];
  await createVerifier({ onKeys: (keyIds) => reported.push([...keyIds]) });
  expect(reported).toEqual([[KEY_ID]]);
});

test("a token in memory is asked for again when its time is over by the clock that cannot be set", async () => {
  let nowMs = performance.now();
  setUptime(() => nowMs);
  const verifier = await createVerifier();
  answer = () => ({ ...active(), expiresInMs: 1_000 });
  const token = tokenOf();
  await verifier.verify(token, undefined);
  nowMs += 999;
  expect(verifier.verify(token, undefined)).toMatchObject({ kind: "active" });
  nowMs += 1;
  expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("active");
  expect(asked).toHaveLength(2);
});

test("a token in memory that turns out to be over is then refused from memory", async () => {
  const verifier = await createVerifier();
  answer = () => ({ ...active(), expiresInMs: 1_000 });
  const token = tokenOf();
  await verifier.verify(token, undefined);
  setUptime((ms) => ms + 1_000);
  answer = () => ({ reason: InactiveReason.EXPIRED });
  for (let sight = 0; sight < 3; sight += 1)
    expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("expired");
  expect(asked).toHaveLength(2);
});

test("no token stays in memory longer than any may live, whatever the answer said", async () => {
  const verifier = await createVerifier();
  const expiresAt = new Date(Date.now() + 86_400_000);
  answer = () => ({ ...active({ expiresAt }), expiresInMs: 86_400_000 });
  const token = tokenOf();
  await verifier.verify(token, undefined);
  setUptime((ms) => ms + 3_610_000);
  send();
  await vi.waitFor(() => verifier.assertReady(), { interval: 2, timeout: 60_000 });
  await verifier.verify(token, undefined);
  expect(asked).toHaveLength(2);
});

test.each([40, 910])(
  "no token stays in memory longer than its revocation, where token-service is set to shorter lives from %i s on",
  async (keepS) => {
    const verifier = await createVerifier();
    const token = tokenOf();
    await verifier.verify(token, undefined);
    const revocation = {
      sequence: 1,
      target: { $case: "sessionId", value: "s" } as const,
      expiresAt: new Date(Date.now() + 40_000),
    };
    await sendUntil(
      vi.waitFor(() => expect(verifier.isKeyBanned("x")).toBe(true), { interval: 2, timeout: 60_000 }),
      {
        keepS,
        revocations: [revocation, { ...revocation, target: { $case: "keyId", value: "x" } }],
      },
    );
    setUptime((ms) => ms + 42_000);
    await sendUntil(
      vi.waitFor(() => verifier.assertReady(), { interval: 2, timeout: 60_000 }),
      { keepS },
    );
    answer = () => ({ reason: InactiveReason.REVOKED });
    expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("revoked");
    expect(verifier.isKeyBanned("x")).toBe(keepS > 42);
  },
);

test.each([
  ["600 s before its end", 600_000, 600_000, 1],
  ["within the allowance of 5 s for clocks", -4_999, 600_000, 1],
  ["5 s after its end", -5_000, 600_000, 2],
  ["that token-service refuses from now on", 600_000, 0, 2],
])("a token seen twice %s", async (_when, leftMs, expiresInMs, calls) => {
  const verifier = await createVerifier();
  const nowMs = Date.now();
  vi.spyOn(Date, "now").mockReturnValue(nowMs);
  answer = () => ({ ...active({ expiresAt: new Date(nowMs + leftMs) }), expiresInMs });
  const token = tokenOf();
  for (let sight = 0; sight < 2; sight += 1)
    expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("active");
  expect(asked).toHaveLength(calls);
});

test("after three seconds of silence memory is not trusted", async () => {
  const verifier = await createVerifier();
  const token = tokenOf();
  await verifier.verify(token, undefined);
  setUptime((ms) => ms + 3_001);
  expect(() => verifier.assertReady()).toThrow(expect.objectContaining({ code: "service_unavailable" }));
  expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("active");
  expect(asked).toHaveLength(2);
});

test("a token that a call refuses in silence is not remembered when the stream is back", async () => {
  const verifier = await createVerifier();
  const token = tokenOf();
  await verifier.verify(token, undefined);
  setUptime((ms) => ms + 3_001);
  answer = () => ({ reason: InactiveReason.INVALID });
  expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("invalid");
  send();
  await vi.waitFor(() => verifier.assertReady(), { interval: 2, timeout: 60_000 });
  expect(await verdictOf(() => verifier.verify(token, undefined))).toBe("invalid");
});

test("after a revocation of an unknown kind every token needs a call, and the verifier stays ready", async () => {
  const verifier = await createVerifier();
  const token = tokenOf();
  await verifier.verify(token, undefined);
  send({ revocations: [{ sequence: 1, target: undefined, expiresAt: soon() }], sequence: 1 });
  await expect
    .poll(async () => {
      await verifier.verify(token, undefined);
      return asked.length;
    })
    .toBeGreaterThan(2);
  verifier.assertReady();
  setUptime((ms) => ms + 3_001);
  expect(() => verifier.assertReady()).toThrow(expect.objectContaining({ code: "service_unavailable" }));
});

test("a verifier is not ready before it knows the log, and ends its stream when it is closed", async () => {
  const verifier = new TokenVerifier({
    address: `127.0.0.1:${port}`,
    certificate: certificates.of("gateway"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("gateway"),
  });
  expect(() => verifier.assertReady()).toThrow(expect.objectContaining({ code: "service_unavailable" }));
  await vi.waitFor(() => expect(watchers).toBe(1), { interval: 2, timeout: 60_000 });
  verifier.close();
  await vi.waitFor(() => expect(watchers).toBe(0), { interval: 2, timeout: 60_000 });
  expect(await verdictOf(() => verifier.verify(tokenOf(), undefined))).not.toBe("active");
  expect(asked).toEqual([]);
});

test("a call that finds token-service unavailable is made once more", async () => {
  const verifier = await createVerifier();
  answer = () => {
    if (asked.length === 1) throw new DomainError("service_unavailable");
    return active();
  };
  expect(await verdictOf(() => verifier.verify(tokenOf(), undefined))).toBe("active");
  expect(asked).toHaveLength(2);
});

test("when to ask again is what token-service says", async () => {
  const verifier = await createVerifier();
  answer = () => {
    throw new DomainError("busy", undefined, { retryAfterMs: 7_000 });
  };
  await expect(verifier.verify(tokenOf(), undefined)).rejects.toMatchObject({
    code: "service_unavailable",
    retryAfterMs: 7_000,
  });
});

test("a failed call is not remembered, and frees its place", async () => {
  const verifier = await createVerifier();
  answer = () => {
    throw new DomainError("conflict");
  };
  const token = tokenOf();
  const tokens = [token, ...Array.from({ length: 99 }, () => tokenOf())];
  const verdicts = await Promise.all(
    tokens.map((each) => verdictOf(() => verifier.verify(each, "192.0.2.1"))),
  );
  expect(new Set(verdicts)).toEqual(new Set(["service_unavailable"]));
  answer = () => active();
  expect(await verdictOf(() => verifier.verify(token, "192.0.2.1"))).toBe("active");
});

test.each([
  [InactiveReason.INVALID, "too_many_requests"],
  [InactiveReason.EXPIRED, "active"],
])("after a hundred refusals (%i) of a network at once its next token is %s", async (reason, expected) => {
  const verifier = await createVerifier();
  const now = performance.now();
  setUptime(() => now); // so that no refusal is forgotten meanwhile
  answer = () => ({ reason });
  const tokens = Array.from({ length: 100 }, () => tokenOf());
  await Promise.all(tokens.map((each) => verifier.verify(each, "192.0.2.1")));
  answer = () => active();
  expect(await verdictOf(() => verifier.verify(tokenOf(), "192.0.2.1"))).toBe(expected);
  expect(await verdictOf(() => verifier.verify(tokenOf(), "192.0.2.2"))).toBe("active");
});

test.each([
  [undefined, 0, 800],
  [5_000, 1_000, 5_000],
])("with %j a call has its time", async (callTimeoutMs, leastMs, mostMs) => {
  const verifier = await createVerifier(callTimeoutMs === undefined ? DEFAULTS : { callTimeoutMs });
  await verifier.verify(tokenOf(), undefined);
  expect(budgetMs).toBeGreaterThan(leastMs);
  expect(budgetMs).toBeLessThanOrEqual(mostMs);
});

test("lookups are counted by where the answer came from, and how old the knowledge is", async () => {
  const verifier = await createVerifier();
  const token = tokenOf();
  for (let sight = 0; sight < 3; sight += 1) await verifier.verify(token, undefined);
  verifier.verify("garbage", undefined);
  for (const late of [1, 2, 3, 4]) verifier.verify(tokenOf({ exp: late }), undefined);
  const text = await metrics.render();
  const count = (from: string) =>
    new RegExp(`^gatehouse_token_lookups_total\\{from="${from}",service="gateway"\\} (\\d+)`, "m").exec(
      text,
    )?.[1];
  expect(["service", "memory", "screened", "expired"].map(count)).toEqual(["1", "2", "1", "4"]);
  setUptime((ms) => ms + 60_000);
  const lag = /^gatehouse_verifier_lag_seconds\{.*\} (\S+)$/m.exec(await metrics.render())?.[1];
  expect(Number(lag)).toBeGreaterThanOrEqual(60);
});

test("a token that is over is refused as such without a call, and a forged one as invalid", async () => {
  const verifier = await createVerifier();
  expect(verifier.verify(tokenOf({ exp: 1 }), undefined)).toEqual({ kind: "inactive", reason: "expired" });
  expect(verifier.verify(tokenOf({ iss: "https://other.example" }), undefined)).toEqual({
    kind: "inactive",
    reason: "invalid",
  });
  expect(asked).toEqual([]);
});

test("a wrong signature under a key that was sent is refused at once, counts for its network, and is remembered", async () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const der = publicKey.export({ type: "spki", format: "der" });
  first = { rules: { issuer: ISSUER, keys: [{ keyId: KEY_ID, algorithm: "EdDSA", publicKey: der }] } };
  const verifier = await createVerifier();
  let nowMs = performance.now();
  setUptime(() => nowMs); // so that no refusal is forgotten meanwhile
  const forged = Array.from({ length: 100 }, () => tokenOf());
  for (const token of forged)
    expect(verifier.verify(token, "192.0.2.1")).toEqual({ kind: "inactive", reason: "invalid" });
  expect(verifier.verify(forged[0] ?? "", "192.0.2.1")).toEqual({ kind: "inactive", reason: "invalid" });
  expect(await verdictOf(() => verifier.verify(tokenOf(), "192.0.2.1"))).toBe("too_many_requests");
  expect(asked).toEqual([]);
  expect(await metrics.render()).toMatch(/^gatehouse_token_lookups_total\{from="screened",.*\} 100$/m);
  const input = tokenOf().split(".").slice(0, 2).join(".");
  const signed = `${input}.${sign(null, Buffer.from(input), privateKey).toString("base64url")}`;
  expect(await verdictOf(() => verifier.verify(signed, "192.0.2.2"))).toBe("active");
  expect(await verdictOf(() => verifier.verify(API_KEY, "192.0.2.2"))).toBe("active");
  expect(asked).toEqual([signed, API_KEY]);
  // Ten seconds forgive a hundred refusals, and none of them holds a place.
  nowMs += 10_000;
  expect(await verdictOf(() => verifier.verify(tokenOf(), "192.0.2.1"))).toBe("active");
});

test("the log says which audience was expected and found, once a minute, and nothing of a forged token", async () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const der = publicKey.export({ type: "spki", format: "der" });
  first = { rules: { issuer: ISSUER, keys: [{ keyId: KEY_ID, algorithm: "EdDSA", publicKey: der }] } };
  const warnings: unknown[] = [];
  const logger = {
    debug: () => undefined,
    warn: (facts: object, text: string) => warnings.push([facts, text]),
    error: expect.unreachable,
  };
  const verifier = await createVerifier({ audience: "payments", logger });
  const [input = ""] = tokenOf({ aud: "ledger" }).split(/\.[^.]*$/);
  const token = `${input}.${sign(null, Buffer.from(input), privateKey).toString("base64url")}`;
  const startMs = Math.ceil(performance.now()); // sums of whole numbers are exact
  let aheadMs = 0;
  setUptime(() => startMs + aheadMs);
  const verifyAt = async (ms: number, text: string) => {
    aheadMs = ms;
    await sendUntil(vi.waitFor(() => verifier.assertReady(), { interval: 2, timeout: 60_000 }));
    expect(await verdictOf(() => verifier.verify(text, undefined))).toBe("invalid");
    return warnings.length;
  };
  expect(await verifyAt(0, tokenOf({ aud: "stranger" }))).toBe(0);
  expect(await verifyAt(999, token)).toBe(0);
  for (const ms of [1_000, 1_001, 60_999]) expect(await verifyAt(ms, token)).toBe(1);
  expect(await verifyAt(61_000, token)).toBe(2);
  const text = "a token for the audience ledger is refused: this is payments";
  expect(warnings).toEqual(Array(2).fill([{ expected: "payments", found: "ledger" }, text]));
  expect(asked).toEqual([]);
});

const INSIDE = ["a.b.c", `${"a".repeat(1_000)}.${"b".repeat(2_838)}.${"c".repeat(256)}`, "-_0.Az9.x"];
const OUTSIDE = [
  "",
  "a.b",
  "a.b.c.d",
  ".b.c",
  "a..c",
  "a.b.",
  "a.b.c ",
  " a.b.c",
  "a.b.c=",
  "a+.b.c",
  "a.b/.c",
  "axb.c",
  "a.bxc",
  `a.${"b".repeat(4_093)}.c`,
];

test("from a service that sends no rules, only what has no token's shape is refused without a call", async () => {
  first = { rules: undefined, part: undefined };
  const verifier = await createVerifier();
  answer = () => ({ reason: InactiveReason.INVALID });
  for (const text of OUTSIDE)
    expect(verifier.verify(text, undefined)).toEqual({ kind: "inactive", reason: "invalid" });
  expect(asked).toEqual([]);
  for (const text of INSIDE) await verifier.verify(text, undefined);
  expect(asked).toEqual(INSIDE);
});

test("the refusal of an unreadable token has no subject", async () => {
  first = { rules: undefined, part: undefined };
  const verifier = await createVerifier();
  answer = () => ({ reason: InactiveReason.REVOKED });
  expect(await verifier.verify("a.b.c", undefined)).toEqual({ kind: "inactive", reason: "revoked" });
});

test("tokens of an unknown key wait for the next read: then they are verified by a call, or refused without one", async () => {
  const verifier = await createVerifier();
  const token = tokenOf({}, NEW_KEY_ID);
  const good = verifier.verify(token, undefined);
  const strange = verifier.verify(tokenOf({}, "X".repeat(43)), undefined);
  const keys = [{ keyId: NEW_KEY_ID, algorithm: "EdDSA", publicKey: Buffer.alloc(0) }];
  await sendUntil(Promise.all([good, strange]), { rules: { ...RULES, keys } });
  expect(await good).toMatchObject({ kind: "active" });
  expect(await strange).toEqual({ kind: "inactive", reason: "invalid" });
  expect(asked).toEqual([token]);
});

test("a network has fifty tokens of unknown keys wait at a time; when they have been answered, others may", async () => {
  const verifier = await createVerifier();
  const wait = () => verdictOf(() => verifier.verify(tokenOf({}, NEW_KEY_ID), "192.0.2.1"));
  const waiting = Array.from({ length: 50 }, wait);
  expect(await wait()).toBe("too_many_requests");
  expect(new Set(await sendUntil(Promise.all(waiting)))).toEqual(new Set(["invalid"]));
  expect(await sendUntil(wait())).toBe("invalid");
  expect(asked).toEqual([]);
});

test("a token of an unknown key has no verdict while no keys arrive", async () => {
  const verifier = await createVerifier();
  const wait = () => verdictOf(() => verifier.verify(tokenOf({}, NEW_KEY_ID), "192.0.2.1"));
  // The silent stream is opened anew before the wait is over.
  first = undefined;
  const verdicts = await Promise.all(Array.from({ length: 50 }, wait));
  expect(new Set(verdicts)).toEqual(new Set(["service_unavailable"]));
  first = { rules: RULES };
  await expect.poll(wait, { timeout: 60_000 }).toBe("invalid");
});
