import { expect, test } from "vitest";
import { isAudience, isSameAudience } from "./audience.ts";

test.each([
  "payments",
  "payments.v1",
  "a",
  "https://payments.example",
  "https://payments.example:8443/v1?x=1",
  "urn:example:payments",
  "spiffe://example/payments",
  `urn:x:${"a".repeat(194)}`,
])("an audience: %s", (text) => {
  expect(isAudience(text)).toBe(true);
});

test.each([
  "",
  " ",
  "two words",
  "-payments",
  "payments.",
  "a/b",
  "http://",
  ":payments",
  "1:payments",
  "https://payments.example/#part",
  "https://payments.example/ü",
  'urn:"x"',
  "urn:x:\\",
  "urn:x:\n",
  `urn:x:${"a".repeat(195)}`,
])("no audience: %j", (text) => {
  expect(isAudience(text)).toBe(false);
});

test.each([
  ["https://auth.example", "https://auth.example/", true],
  ["https://auth.example", "HTTPS://AUTH.example:443", true],
  ["https://auth.example/auth/refresh", "https://auth.example/auth/refresh/", true],
  ["https://auth.example", "https://auth.example/payments", false],
  ["https://auth.example", "http://auth.example", false],
  ["payments", "payments", true],
  ["payments", "Payments", false],
])("%s and %s name the same audience: %s", (one, other, expected) => {
  expect(isSameAudience(one, other)).toBe(expected);
});
