import { expect, test } from "vitest";
import { isRefreshTokenForm } from "./token-rules.ts";

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const HEADER = { alg: "EdDSA", typ: "rt+jwt", kid: "A".repeat(43) };
const SIGNATURE = Buffer.alloc(64, 1).toString("base64url");
const token = (header: unknown, signature = SIGNATURE) => `${part(header)}.${part({ gen: 1 })}.${signature}`;

test("what token-service signs has the form of a refresh token, whichever key signed it", () => {
  expect(isRefreshTokenForm(token(HEADER))).toBe(true);
  expect(isRefreshTokenForm(token({ ...HEADER, alg: "ES256", kid: "B".repeat(43) }))).toBe(true);
});

test.each([
  ["no token", "garbage"],
  ["empty objects", "e30.e30.e30"],
  ["an access token", token({ ...HEADER, typ: "at+jwt" })],
  ["another algorithm", token({ ...HEADER, alg: "HS256" })],
  ["a key name that is none", token({ ...HEADER, kid: "../../keys" })],
  ["another member in the header", token({ ...HEADER, jwk: {} })],
  ["a signature that is too short", token(HEADER, Buffer.alloc(63, 1).toString("base64url"))],
  ["no signature", token(HEADER, "")],
])("%s has not", (_, text) => {
  expect(isRefreshTokenForm(text)).toBe(false);
});
