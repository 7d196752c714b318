import { expect, test } from "vitest";
import { maskSecrets } from "./mask-secrets.ts";

test.each([
  ["4111111111111111", "411111******1111"],
  ["4111 1111 1111 1111", "411111******1111"],
  ["cards/4111-1111-1111-1111/refund", "cards/411111******1111/refund"],
  ["378282246310005", "378282*****0005"],
  ["3782 822463 10005", "378282*****0005"],
  ["30569309025904", "305693****5904"],
  ["a 5555555555554444 b 4012888888881881", "a 555555******4444 b 401288******1881"],
  ["x eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln y", "x [token] y"],
  ["xeyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "x[token]"],
  ["v1.eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "v1.[token]"],
  [`x/gh_${"0a".repeat(16)}_${"k-".repeat(21)}k y`, "x/[api key] y"],
  ["eyJ.eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "eyJ.[token]"],
])("%s is kept as %s", (text, kept) => {
  expect(maskSecrets(text)).toBe(kept);
});

// An id that looked like a card would be lost to whoever searches for it.
test.each([
  "0199a000-0000-7000-8000-000000000001",
  "41111111-1111-4111-8111-111111111111",
  "4111111111111112", // the check digit is wrong
  "1763726400000", // milliseconds
  "1189998819991197253", // 19 digits
  "pay_4111111111111111",
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0.0.0",
])("%s stays as it is", (text) => {
  expect(maskSecrets(text)).toBe(text);
});

test("only the first 8192 characters are kept", () => {
  expect(maskSecrets("a".repeat(8_193))).toBe("a".repeat(8_192));
});
