import { expect, test } from "vitest";
import { assertScheme, bearerToken, presentedToken } from "./bearer-token.ts";

test.each([
  ["Bearer a.b-c_d~e+f/0==", "a.b-c_d~e+f/0=="],
  ["bEARER token", "token"],
  [`Bearer ${"a".repeat(4_096)}`, "a".repeat(4_096)],
])("%j brings its token", (authorization, token) => {
  expect(bearerToken(authorization)).toBe(token);
});

test.each([
  undefined,
  "",
  "Basic dXNlcjp4",
  "Bearertoken",
  "Bearer\ttoken",
  " Bearer token",
  "x Bearer token",
])("%j is no bearer's header", (authorization) => {
  expect(() => bearerToken(authorization)).toThrow(expect.objectContaining({ code: "token_missing" }));
});

test.each([
  "Bearer",
  "Bearer ",
  "Bearer  token",
  "Bearer token ",
  "Bearer token token",
  "Bearer token Bearer token",
  "Bearer to=ken",
  "Bearer =",
  "Bearer tok\u00e9n",
  `Bearer ${"a".repeat(4_097)}`,
])("%j brings no token", (authorization) => {
  expect(() => bearerToken(authorization)).toThrow(expect.objectContaining({ code: "token_invalid" }));
});

test.each([
  ["DPoP a.b", { text: "a.b", isDpop: true }],
  ["dpop a.b", { text: "a.b", isDpop: true }],
  ["Bearer a.b", { text: "a.b", isDpop: false }],
])("%j presents its token with its scheme", (authorization, presented) => {
  expect(presentedToken(authorization)).toEqual(presented);
});

test("a token with the scheme DPoP is no bearer token", () => {
  expect(() => bearerToken("DPoP a.b")).toThrow(expect.objectContaining({ code: "token_missing" }));
  expect(() => presentedToken("DPoP")).toThrow(expect.objectContaining({ code: "token_invalid" }));
});

const KEY = { jkt: "k", x5tS256: "" };
const CERTIFICATE = { jkt: "", x5tS256: "c" };
test.each([
  ["a bearer token as Bearer", false, undefined, undefined],
  ["a bearer token as DPoP", true, undefined, "token_proof_invalid"],
  ["a token of a key as DPoP", true, KEY, undefined],
  ["a token of a key as Bearer", false, KEY, "token_proof_missing"],
  ["a token of a certificate as Bearer", false, CERTIFICATE, undefined],
  ["a token of a certificate as DPoP", true, CERTIFICATE, "token_proof_invalid"],
])("%s: %s", (_what, isDpop, confirmation, code) => {
  const check = () => assertScheme({ text: "t", isDpop }, { confirmation });
  if (code === undefined) expect(check).not.toThrow();
  else expect(check).toThrow(expect.objectContaining({ code }));
});
