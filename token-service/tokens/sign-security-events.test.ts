import { randomUUID } from "node:crypto";
import { createLocalJWKSet, jwtVerify } from "jose";
import { beforeAll, expect, test } from "vitest";
import { generateSigningKey, importPrivateKey } from "../keys/signing-key.ts";
import { checkAccessClaims } from "./access-token.ts";
import {
  type SignSecurityEventsDeps,
  securityEventTokens,
  signSecurityEvents,
} from "./sign-security-events.ts";

const ISSUER = "https://gateway.example.com";
const at = new Date("2026-11-28T12:00:00.900Z");
const USER = randomUUID();
const SESSION = randomUUID();
const STREAM = randomUUID();
const token = {
  ...{
    jti: randomUUID(),
    audience: "receiver",
    eventType: "https://schemas.openid.net/secevent/caep/event-type/session-revoked",
  },
  ...{ eventJson: '{"event_timestamp":1}', userId: "", sessionId: "", streamId: "" },
};

let deps: SignSecurityEventsDeps;
let jwks: ReturnType<typeof createLocalJWKSet>;
beforeAll(async () => {
  const { id, publicJwk, privateJwk } = await generateSigningKey("EdDSA");
  const key = { id, algorithm: "EdDSA", privateKey: importPrivateKey(privateJwk) };
  deps = {
    issuer: ISSUER,
    keys: { active: () => key as never },
    assertClock: () => undefined,
    now: () => at,
  };
  jwks = createLocalJWKSet({ keys: [publicJwk] });
});

const sign = (given: Partial<typeof token>) =>
  signSecurityEvents(deps, securityEventTokens.parse({ tokens: [{ ...token, ...given }] }).tokens)[0] ?? "";

const user = { format: "iss_sub", iss: ISSUER, sub: USER };

test.each([
  { about: "a user", ids: { userId: USER }, subject: user },
  {
    about: "a session",
    ids: { userId: USER, sessionId: SESSION },
    subject: { format: "complex", user, session: { format: "opaque", id: SESSION } },
  },
  { about: "a stream", ids: { streamId: STREAM }, subject: { format: "opaque", id: STREAM } },
  {
    about: "everybody",
    ids: {},
    subject: { format: "complex", tenant: { format: "uri", uri: ISSUER } },
  },
])(
  "a security event token about $about is signed by the issuer for its receiver",
  async ({ ids, subject }) => {
    const { payload, protectedHeader } = await jwtVerify(sign(ids), jwks, {
      issuer: ISSUER,
      audience: "receiver",
    });
    expect(protectedHeader).toMatchObject({ typ: "secevent+jwt", alg: "EdDSA" });
    expect(payload).toEqual({
      ...{
        iss: ISSUER,
        aud: "receiver",
        iat: Math.floor(at.getTime() / 1_000),
        jti: token.jti,
        sub_id: subject,
      },
      events: { [token.eventType]: { event_timestamp: 1 } },
    });
  },
);

test("its claims are no access token's, whatever the audience", async () => {
  const { payload } = await jwtVerify(sign({ audience: ISSUER, userId: USER }), jwks);
  const rules = { issuer: ISSUER, audience: ISSUER, accessTtlS: 900 };
  expect(checkAccessClaims(payload, rules, at.getTime() / 1_000)).toBe("claims");
});

test.each([
  ["an event that is no object", { eventJson: "[1]" }],
  ["an event that is no JSON", { eventJson: "{" }],
  ["an event that is too long", { eventJson: JSON.stringify({ a: "x".repeat(8_192) }) }],
  ["a type that is no URI", { eventType: "session-revoked" }],
  ["no audience", { audience: "" }],
  ["a user that is no UUID", { userId: "ada" }],
])("%s is refused", (_what, given) => {
  expect(securityEventTokens.safeParse({ tokens: [{ ...token, ...given }] }).success).toBe(false);
});
