import { expect, test } from "vitest";
import { checkRefreshClaims, refreshAudience } from "./refresh-token.ts";

const UUID = "018f4a2e-0000-7000-8000-00000000000a";
const ISSUER = "https://auth.example";
const NOW_S = 1_000_000;
const CLAIMS = {
  iss: ISSUER,
  aud: `${ISSUER}/auth/refresh`,
  sub: UUID,
  sid: UUID,
  jti: "A".repeat(22),
  gen: 1,
  iat: 0,
  exp: 0,
};
const check = (changes: object = {}) => checkRefreshClaims({ ...CLAIMS, ...changes }, ISSUER, NOW_S);

test("the claims of a refresh token are what it says; its end is decided by the session", () => {
  expect(refreshAudience(ISSUER)).toBe(CLAIMS.aud);
  expect(check()).toEqual(CLAIMS);
});

test.each([{ gen: 2_147_483_647 }, { nbf: NOW_S + 5 }, { nbf: 0 }, { jti: "_-z0Z".padEnd(22, "a") }])(
  "with %j it is one",
  (changes) => {
    expect(check(changes)).toBeDefined();
  },
);

test.each([
  { iss: "https://other.example" },
  { aud: ISSUER },
  { sub: "admin" },
  { sid: `${UUID}x` },
  { sid: `x${UUID}` },
  { jti: "A".repeat(21) },
  { jti: "A".repeat(23) },
  { jti: `${"A".repeat(21)}+` },
  { gen: 0 },
  { gen: 1.5 },
  { gen: 2_147_483_648 },
  { iat: -1 },
  { exp: -1 },
  { nbf: -1 },
  { nbf: NOW_S + 6 },
  { gen: undefined },
])("with %j it is none", (changes) => {
  expect(check(changes)).toBeUndefined();
});

test("each part of a UUID has its length", () => {
  const parts = UUID.split("-");
  for (let index = 0; index < parts.length; index += 1) {
    for (const part of [`${parts[index]}0`, parts[index]?.slice(1)]) {
      expect(check({ sub: parts.with(index, part ?? "").join("-") })).toBeUndefined();
    }
  }
});
