import { expect, test } from "vitest";
import { parseAcr } from "#token-client/assurance.ts";
import { checkAccessClaims, generationOf, isOfClient, type UserClaims } from "./access-token.ts";

const UUID = "018f4a2e-0000-7000-8000-00000000000a";
const RULES = { issuer: "https://auth.example", audience: "https://auth.example", accessTtlS: 900 };
const NOW_S = 1_000_000;
const CLAIMS = {
  iss: RULES.issuer,
  aud: RULES.issuer,
  sub: UUID,
  client_id: "gatehouse",
  sid: UUID,
  jti: `12.${"A".repeat(22)}`,
  iat: NOW_S,
  exp: NOW_S + 900,
  role: "AUDITOR",
  amr: ["pwd", "otp"],
  acr: "urn:gatehouse:acr:2",
  auth_time: 0,
};
const check = (changes: object = {}) => checkAccessClaims({ ...CLAIMS, ...changes }, RULES, NOW_S);
const outcome = (changes: object) => {
  const checked = check(changes);
  return typeof checked === "string" ? checked : "good";
};

test("the claims of a valid token are returned", () => {
  expect(check()).toEqual(CLAIMS);
});

test.each([
  ["the gateway's", {}, "good"],
  ["none (RFC 9068 §2.2)", { client_id: undefined }, "claims"],
  ["a client's", { client_id: UUID }, "claims"],
  [
    "a client's, with a scope and without a role",
    { client_id: UUID, scope: "a", role: undefined, jti: UUID },
    "good",
  ],
  ["a client's, with a scope and a role", { client_id: UUID, scope: "a", jti: UUID }, "claims"],
  ["the gateway's, with a client's claims", { scope: "a", role: undefined, jti: UUID }, "claims"],
])("the client of a token is %s", (_what, changes, expected) => {
  expect(outcome(changes)).toBe(expected);
});

test("a user's token is no client's, whatever its scope says", () => {
  const claims = check({ scope: "admin:all" });
  expect(typeof claims === "string" || isOfClient(claims)).toBe(false);
});

test.each([
  ["the longest life", { exp: NOW_S + 900 }, "good"],
  ["a second more", { exp: NOW_S + 901 }, "lifetime"],
  ["a life of a second", { exp: NOW_S + 1 }, "good"],
  ["no life", { exp: NOW_S }, "lifetime"],
  ["from the time of the epoch", { iat: 0, exp: 900 }, "exp"],
  ["a second before the epoch", { iat: -1, exp: 800 }, "claims"],
  ["four seconds after its end", { iat: NOW_S - 100, exp: NOW_S - 4 }, "good"],
  ["five seconds after its end", { iat: NOW_S - 100, exp: NOW_S - 5 }, "exp"],
  ["issued in five seconds", { iat: NOW_S + 5, exp: NOW_S + 60 }, "good"],
  ["issued in six seconds", { iat: NOW_S + 6, exp: NOW_S + 60 }, "iat"],
  ["good from five seconds on", { nbf: NOW_S + 5 }, "good"],
  ["good from six seconds on", { nbf: NOW_S + 6 }, "nbf"],
  ["good from the epoch on", { nbf: 0 }, "good"],
  ["good from before the epoch on", { nbf: -1 }, "claims"],
  ["a login before the epoch", { auth_time: -1 }, "claims"],
  ["an end before the epoch", { exp: -1 }, "claims"],
])("a token with %s", (_what, changes, expected) => {
  expect(outcome(changes)).toBe(expected);
});

test.each([
  [["x"], "good"],
  [["x".repeat(32)], "good"],
  [Array.from({ length: 8 }, () => "x"), "good"],
  [[], "claims"],
  [[""], "claims"],
  [["x".repeat(33)], "claims"],
  [Array.from({ length: 9 }, () => "x"), "claims"],
])("the methods %j", (amr, expected) => {
  expect(outcome({ amr })).toBe(expected);
});

test.each([
  ["urn:gatehouse:acr:1", ["pwd", "mfa"], 1],
  ["urn:gatehouse:acr:2", ["pwd"], 2],
  ["urn:gatehouse:acr:3", ["hwk"], 3],
  [undefined, ["pwd", "otp", "mfa"], "claims"],
  ["urn:gatehouse:acr:4", ["pwd"], "claims"],
  ["2", ["pwd"], "claims"],
  ["", ["pwd"], "claims"],
  [2, ["pwd"], "claims"],
])("the context %j with the methods %j is the level %j", (acr, amr, expected) => {
  const checked = check({ acr, amr });
  expect(typeof checked === "string" ? checked : parseAcr((checked as UserClaims).acr)).toBe(expected);
});

test.each(["USER", "ADMIN", "AUDITOR"])("the role %s is known", (role) => {
  expect(outcome({ role })).toBe("good");
});

const SUFFIX = "A".repeat(22);
test.each([
  [`1.${SUFFIX}`, "good"],
  [`2147483647.${SUFFIX}`, "good"],
  ["9._-z0Z".padEnd(24, "a"), "good"],
  [`2147483648.${SUFFIX}`, "claims"],
  [`01.${SUFFIX}`, "claims"],
  [`.${SUFFIX}`, "claims"],
  [`12345678901.${SUFFIX}`, "claims"],
  [`1x${SUFFIX}`, "claims"],
  [`1.${"A".repeat(21)}`, "claims"],
  [`1.${"A".repeat(23)}`, "claims"],
  [`1.${"A".repeat(21)}+`, "claims"],
  [`x1.${SUFFIX}`, "claims"],
  [`1a.${SUFFIX}`, "claims"],
])("the token's id %s", (jti, expected) => {
  expect(outcome({ jti })).toBe(expected);
});

test.each([
  `x${UUID}`,
  `${UUID}x`,
  UUID.slice(1),
  UUID.slice(0, -1),
  UUID.replaceAll("-", ""),
  UUID.replace("a", "g"),
])("%s is no UUID of a user or a session", (text) => {
  expect([outcome({ sub: text }), outcome({ sid: text })]).toEqual(["claims", "claims"]);
});

test("each part of a UUID has its length", () => {
  const parts = UUID.split("-");
  for (let index = 0; index < parts.length; index += 1) {
    for (const part of [`${parts[index]}0`, parts[index]?.slice(1)]) {
      expect(outcome({ sub: parts.with(index, part ?? "").join("-") })).toBe("claims");
    }
  }
});

test("the generation of a token's session is the number before the dot", () => {
  expect(generationOf({ jti: `12.${SUFFIX}` })).toBe(12);
});
