import { randomUUID } from "node:crypto";
import { exportJWK, generateKeyPair, UnsecuredJWT } from "jose";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Secret } from "#kit/config/config.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  type EventLies,
  type HostileProvider,
  hang,
  SESSION_REVOKED,
  startHostileProvider,
} from "#tests/support/people/hostile-provider.ts";
import { createClientLimits } from "../clients/client-limits.ts";
import { startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { deleteExpiredOAuth } from "./begin-oauth-login.ts";
import { partyOf, settingsOf } from "./oauth.fixture.ts";
import type { SecurityEventSettings } from "./oauth-provider-settings.ts";
import { receiveSecurityEvent } from "./receive-security-event.ts";

const RISC = "https://schemas.openid.net/secevent/risc/event-type";
const NOW_S = 1_925_089_445;
const DAY_S = 86_400;
/** Of more than anything here takes. */
const BUDGET_MS = 60_000;

let database: TestDatabase;
let provider: HostileProvider;
let other: HostileProvider;
let deps: TestDeps;
let userId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
  [provider, other] = await Promise.all([startHostileProvider(), startHostileProvider()]);
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database));
  await database.ownerSql`truncate received_events, session_ends, security_events`;
  provider.lie({});
  provider.counts["/jwks"] = 0;
  useProvider({});
  await link(provider.issuer, "sub-1");
});
afterAll(async () => {
  provider.close();
  other.close();
  await database.drop();
});

const link = (issuer: string, subject: string) => database.ownerSql`
  insert into external_identities (issuer, subject, user_id, provider, linked_at)
  values (${issuer}, ${subject}, ${userId}, ${issuer === provider.issuer ? "demo" : "other"}, now())`;

function useProvider(own: Partial<SecurityEventSettings>) {
  const of = ({ issuer }: HostileProvider, name: string, more: Partial<SecurityEventSettings> = {}) =>
    partyOf({
      ...settingsOf(issuer),
      name,
      securityEvents: { audience: "gatehouse", issuer, jwks: undefined, token: undefined, ...more },
    });
  deps.relyingParties = new Map([
    ["demo", of(provider, "demo", own)],
    ["other", of(other, "other")],
    ["silent", partyOf({ ...settingsOf(provider.issuer), name: "silent" })],
  ]);
}

/** As of the clock of these tests. */
const event = ({ claims, ...lies }: EventLies = {}, from = provider) =>
  from.securityEvent({ ...lies, claims: { iat: NOW_S, ...claims } });
const push = (
  text: string,
  { name = "demo", bearerToken = "", budgetMs = BUDGET_MS, ip = "192.0.2.1" } = {},
) =>
  receiveSecurityEvent(
    deps,
    { provider: name, event: text, bearerToken, clientIp: ip },
    newCallContext({ budgetMs }),
  );
const refusalOf = (work: Promise<unknown>) =>
  work.then(
    () => "taken",
    (error: DomainError) => error.fields[0]?.code ?? error.code,
  );
const ended = () => deps.tokenService.revokeUserSessions.mock.calls.map(([which]) => which);
const results = () => vi.mocked(deps.countSecurityEvent).mock.calls.map(([, result]) => result);

test.each([
  ["session-revoked", { events: { [SESSION_REVOKED]: { event_timestamp: NOW_S } } }, "session_revoked"],
  [
    "account-disabled",
    { events: { [`${RISC}/account-disabled`]: { reason: "hijacking" } } },
    "account_disabled",
  ],
  ["sessions-revoked", { events: { [`${RISC}/sessions-revoked`]: {} } }, "sessions_revoked"],
])(
  "%s ends all sessions of the linked account and those in progress, with a record of who said so",
  async (_name, claims, kind) => {
    deps.tokenService.revokeUserSessions.mockResolvedValue(["s1", "s2"]);
    expect(await push(await event({ claims }))).toEqual(["s1", "s2"]);
    expect(ended()).toEqual([{ userId, exceptSessionId: null, reason: "ended_by_provider" }]);
    expect(await database.ownerSql`select type, user_id, actor_id, reason, ip from security_events`).toEqual([
      { type: "sessions_ended", user_id: userId, actor_id: null, reason: `demo: ${kind}`, ip: "" },
    ]);
    expect(await database.ownerSql`select session_epoch, status from users where id = ${userId}`).toEqual([
      { session_epoch: 1, status: "active" },
    ]);
    expect(await database.ownerSql`select from session_ends`).toHaveLength(0);
    expect(results()).toEqual(["ended"]);
  },
);

test.each([
  [
    "complex",
    (iss: string) => ({ sub_id: { format: "complex", user: { format: "iss_sub", iss, sub: "sub-1" } } }),
  ],
  [
    "of the drafts",
    (iss: string) => ({
      sub_id: undefined,
      events: { [SESSION_REVOKED]: { subject: { subject_type: "iss-sub", iss, sub: "sub-1" } } },
    }),
  ],
])("a subject may be %s", async (_name, claims) => {
  await push(await event({ claims: claims(provider.issuer) }));
  expect(ended()).toHaveLength(1);
});

test("an event comes again without effect, also at once, and from the other side of a restart", async () => {
  const text = await event({ claims: { jti: "once" } });
  await Promise.all(Array.from({ length: 5 }, () => push(text)));
  useProvider({});
  await push(text);
  await push(await event({ claims: { jti: "once", iat: NOW_S - 5 } }));
  expect(ended()).toHaveLength(1);
  expect(results().filter((result) => result === "repeated")).toHaveLength(6);
});

test("an event is remembered for as long as it is accepted, and then forgotten", async () => {
  await push(await event({ claims: { iat: NOW_S - 7 * DAY_S + 60 } }));
  const clock = (s: number) => ({ ...deps, now: () => new Date((NOW_S + s) * 1_000) });
  await deleteExpiredOAuth(clock(60));
  expect(await database.ownerSql`select from received_events`).toHaveLength(1);
  await deleteExpiredOAuth(clock(120));
  expect(await database.ownerSql`select from received_events`).toHaveLength(0);
});

test("if it cannot be written, nothing of it is remembered, and it has its effect the next time", async () => {
  const text = await event();
  await database.ownerSql`alter table session_ends rename to session_ends_away`;
  try {
    await expect(push(text)).rejects.toThrow();
    expect(await database.ownerSql`select from received_events`).toHaveLength(0);
  } finally {
    await database.ownerSql`alter table session_ends_away rename to session_ends`;
  }
  await push(text);
  expect(ended()).toHaveLength(1);
});

test("while token-service is away the event is taken, and the end waits", async () => {
  deps.tokenService.revokeUserSessions.mockRejectedValue(new DomainError("service_unavailable"));
  expect(await push(await event())).toEqual([]);
  expect(await database.ownerSql`select user_id from session_ends`).toEqual([{ user_id: userId }]);
});

test("what ends nothing is taken: an unknown account, other types, however many", async () => {
  const verification = "https://schemas.openid.net/secevent/ssf/event-type/verification";
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`a:${index}`, {}]));
  await push(await event({ claims: { sub_id: { format: "iss_sub", iss: provider.issuer, sub: "nobody" } } }));
  for (const events of [{ [verification]: { state: "s" } }, { "https://x.example/y": {} }, many]) {
    await push(await event({ claims: { events, sub_id: { format: "opaque", id: "stream" } } }));
  }
  expect(ended()).toEqual([]);
  expect(results()).toEqual(["no_account", "no_effect", "no_effect", "no_effect"]);
});

test("an event of one provider says nothing of another's accounts, and ends nothing of the same subject there", async () => {
  await link(other.issuer, "sub-2");
  const foreign = { format: "iss_sub", iss: provider.issuer, sub: "sub-1" };
  const about = (sub_id: object) => event({ claims: { sub_id } }, other);
  expect(await refusalOf(push(await about(foreign), { name: "other" }))).toBe("invalid_request");
  await push(await about({ format: "iss_sub", iss: other.issuer, sub: "sub-1" }), { name: "other" });
  expect(await refusalOf(push(await event({}, other)))).toBe("invalid_issuer");
  expect(
    await refusalOf(push(await event({ claims: { iss: provider.issuer, sub_id: foreign } }, other))),
  ).toBe("invalid_key");
  expect(ended()).toEqual([]);
});

const WRONG: [string, string, EventLies][] = [
  ["no type", "invalid_request", { header: { typ: undefined } }],
  ["the type of an ID token", "invalid_request", { header: { typ: "JWT" } }],
  ["another issuer", "invalid_issuer", { claims: { iss: "https://evil.example" } }],
  ["another audience", "invalid_audience", { claims: { aud: "gatehouse-2" } }],
  ["no audience", "invalid_request", { claims: { aud: undefined } }],
  ["no jti", "invalid_request", { claims: { jti: undefined } }],
  ["a long jti", "invalid_request", { claims: { jti: "j".repeat(256) } }],
  ["no iat", "invalid_request", { claims: { iat: undefined } }],
  ["the future", "invalid_request", { claims: { iat: NOW_S + 60 } }],
  ["the past", "invalid_request", { claims: { iat: NOW_S - 7 * DAY_S - 1 } }],
  ["exp", "invalid_request", { claims: { exp: NOW_S + 60 } }],
  ["sub", "invalid_request", { claims: { sub: "sub-1" } }],
  ["no events", "invalid_request", { claims: { events: undefined } }],
  ["empty events", "invalid_request", { claims: { events: {} } }],
  ["an event that is no object", "invalid_request", { claims: { events: { [SESSION_REVOKED]: 1 } } }],
  ["no subject", "invalid_request", { claims: { sub_id: undefined } }],
  ["an address", "invalid_request", { claims: { sub_id: { format: "email", email: "anna@example.com" } } }],
  ["no sub", "invalid_request", { claims: { sub_id: { format: "iss_sub", iss: "http://127.0.0.1" } } }],
  ["an unknown critical header", "invalid_key", { header: { crit: ["x"], x: 1 } }],
  ["an unknown key", "invalid_key", { header: { kid: "another" } }],
];

test.each(WRONG)("an event with %s is %s", async (_name, code, lies) => {
  let text: string;
  if (lies.header?.crit === undefined) text = await event(lies);
  else {
    // Jose does not sign what it does not know.
    const [, ...rest] = (await event()).split(".");
    const header = { alg: "ES256", kid: provider.publicJwk().kid, typ: "secevent+jwt", ...lies.header };
    text = [Buffer.from(JSON.stringify(header)).toString("base64url"), ...rest].join(".");
  }
  expect(await refusalOf(push(text))).toBe(code);
  expect(ended()).toEqual([]);
  expect(await database.ownerSql`select from received_events`).toHaveLength(0);
});

test("no signature, one by another key, an HMAC by the public key, a changed payload: invalid_key", async () => {
  const right = await event();
  const [, payload = "", signature] = right.split(".");
  const header = (await event()).split(".")[0];
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString()) as Record<string, unknown>;
  const changed = Buffer.from(JSON.stringify({ ...claims, jti: "changed" })).toString("base64url");
  const none = Buffer.from(JSON.stringify({ alg: "none", typ: "secevent+jwt" })).toString("base64url");
  const bytes = new TextEncoder().encode(JSON.stringify(provider.publicJwk()));
  const forged = [
    `${none}.${new UnsecuredJWT(claims).encode().split(".")[1]}.`,
    await event({ header: { alg: "HS256" }, key: bytes }),
    await event({ key: (await generateKeyPair("ES256")).privateKey }),
    `${header}.${changed}.${signature}`,
  ];
  for (const text of forged) expect(await refusalOf(push(text))).toBe("invalid_key");
  expect(await refusalOf(push("a.b.c"))).toBe("invalid_request");
  expect(await refusalOf(push(`${right}${"A".repeat(16_384)}`))).toBe("invalid_request");
  expect(ended()).toEqual([]);
});

const withKeys = (...others: object[]) => {
  const keys = [...others, provider.publicJwk()];
  provider.lie({ answers: { "/jwks": (response) => response.end(JSON.stringify({ keys })) } });
};
const newKeys = (count: number) =>
  Promise.all(
    Array.from({ length: count }, async () => ({
      ...(await exportJWK((await generateKeyPair("ES256")).publicKey)),
      ...{ kid: randomUUID(), alg: "ES256", use: "sig" },
    })),
  );

test("an event that names no key is taken if one of the issuer's keys made it, and refused if none did", async () => {
  withKeys(...(await newKeys(2)));
  const header = { kid: undefined };
  const stranger = await generateKeyPair("ES256");
  expect(await refusalOf(push(await event({ header, key: stranger.privateKey })))).toBe("invalid_key");
  expect(ended()).toEqual([]);
  await push(await event({ header }));
  expect(ended()).toHaveLength(1);
});

test("of an issuer with very many keys not all are tried", async () => {
  withKeys(...(await newKeys(10)));
  expect(await refusalOf(push(await event({ header: { kid: undefined } })))).toBe("invalid_key");
  await push(await event());
  expect(ended()).toHaveLength(1);
});

test("a provider that is unknown, or whose events are not taken, is not found", async () => {
  const text = await event();
  for (const name of ["nobody", "silent"]) {
    expect(await refusalOf(push(text, { name }))).toBe("provider_not_found");
  }
});

test("a configured bearer token is asked for, before anything is checked", async () => {
  useProvider({ token: new Secret("the bearer token of the tests") });
  for (const bearerToken of ["", "the bearer token of the test"]) {
    expect(await refusalOf(push(await event(), { bearerToken }))).toBe("authentication_failed");
  }
  expect(provider.counts["/jwks"]).toBe(0);
  await push(await event(), { bearerToken: "the bearer token of the tests" });
  expect(ended()).toHaveLength(1);
});

test("another issuer and other keys than those of the ID tokens", async () => {
  const issuer = "https://events.example";
  useProvider({ issuer, jwks: `${other.issuer}/jwks` });
  expect(await refusalOf(push(await event({ claims: { iss: issuer } })))).toBe("invalid_key");
  const sub_id = { format: "iss_sub", iss: issuer, sub: "sub-1" };
  await push(await event({ claims: { iss: issuer, sub_id } }, other));
  expect(ended()).toHaveLength(1);
});

test("keys that cannot be read, or not in time, are no refusal: the transmitter sends again", async () => {
  const text = await event();
  provider.lie({ answers: { "/jwks": (response) => response.writeHead(500).end() } });
  await expect(push(text)).rejects.toMatchObject({ code: "service_unavailable", retryAfterMs: 5_000 });
  provider.lie({ answers: { "/jwks": hang } });
  useProvider({});
  await expect(push(text, { budgetMs: 400 })).rejects.toMatchObject({ code: "service_unavailable" });
  provider.lie({});
  useProvider({});
  await push(text);
  expect(ended()).toHaveLength(1);
});

test("made-up keys cause one reading in 30 s, and do not make a new key of the provider refused for good", async () => {
  await push(await event());
  expect(provider.counts["/jwks"]).toBe(1);
  for (let index = 0; index < 20; index += 1) {
    const made = await event({ header: { kid: `made-up-${index}` } });
    expect(await refusalOf(push(made, { ip: "198.51.100.1" }))).toBe("service_unavailable");
  }
  await provider.rotate();
  await expect(push(await event())).rejects.toMatchObject({ retryAfterMs: 30_000 });
  expect(provider.counts["/jwks"]).toBe(1);
});

test("strangers use up their own network's checks, not those of the transmitter, which has a pace of its own", async () => {
  deps = { ...deps, clientLimits: createClientLimits(() => 0) };
  await push(await event());
  const [head, payload, signature = ""] = (await event()).split(".");
  const broken = `${head}.${payload}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`;
  const stranger = { ip: "198.51.100.1" };
  for (let index = 0; index < 300; index += 1)
    expect(await refusalOf(push(broken, stranger))).toBe("invalid_key");
  expect(await refusalOf(push(broken, stranger))).toBe("too_many_requests");
  for (let index = 1; index < 1_200; index += 1) {
    const sub_id = { format: "iss_sub", iss: provider.issuer, sub: `nobody-${index}` };
    await push(await event({ claims: { sub_id } }));
  }
  expect(await refusalOf(push(await event()))).toBe("too_many_requests");
  expect(ended()).toHaveLength(1);
});
