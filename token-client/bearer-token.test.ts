import { expect, test } from "vitest";
import { bearerToken } from "./bearer-token.ts";

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
