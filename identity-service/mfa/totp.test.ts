import { expect, test } from "vitest";
import { otpauthUrl, totpSecretText, totpStep } from "./totp.ts";

const SECRET = Buffer.from("12345678901234567890");
const at = (seconds: number) => new Date(seconds * 1_000);

// RFC 6238 appendix B, SHA-1: its codes have eight digits, ours are their last six.
test.each([
  { timeS: 59, code: "94287082" },
  { timeS: 1_111_111_109, code: "07081804" },
  { timeS: 1_111_111_111, code: "14050471" },
  { timeS: 1_234_567_890, code: "89005924" },
  { timeS: 2_000_000_000, code: "69279037" },
  { timeS: 20_000_000_000, code: "65353130" },
])("RFC 6238 appendix B: at $timeS s the code is $code", ({ timeS, code }) => {
  expect(totpStep(SECRET, code.slice(-6), at(timeS))).toBe(Math.floor(timeS / 30));
});

test("of five steps around now, this one and the one before are accepted, each as itself", () => {
  const code = "081804"; // of the step that begins at 1,111,111,080 s
  const step = 37_037_036;
  const accepted = [-60, -30, 0, 30, 60].map((shiftS) => totpStep(SECRET, code, at(1_111_111_109 + shiftS)));
  expect(accepted).toEqual([undefined, undefined, step, step, undefined]);
});

test.each([0, 29.999])("a step is 30 s long: %d s into it its code is right", (intoS) => {
  expect(totpStep(SECRET, "081804", at(1_111_111_080 + intoS))).toBe(37_037_036);
});

test.each(["", "08180", "0818041", "07081804", "08 804", "٠٨١٨٠٤", "081804\n", "+81804", "0x1804"])(
  "%j is no code",
  (code) => {
    expect(totpStep(SECRET, code, at(1_111_111_109))).toBeUndefined();
  },
);

test("the secret is written as RFC 4648 base32, and apps read it from the URL with issuer and address", () => {
  expect(totpSecretText(SECRET)).toBe("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
  const url = new URL(otpauthUrl(SECRET, "Gate House", "a+b@example.com"));
  expect(`${url.protocol}//${url.host}`).toBe("otpauth://totp");
  expect(decodeURIComponent(url.pathname)).toBe("/Gate House:a+b@example.com");
  expect(url.searchParams.get("secret")).toBe("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
  expect(url.searchParams.get("issuer")).toBe("Gate House");
});
