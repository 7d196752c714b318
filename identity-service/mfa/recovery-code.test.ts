import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { newRecoveryCodes, normalCode, recoveryCodeHash } from "./recovery-code.ts";

test("there are ten codes of 80 bits, all different, in groups of four", () => {
  const asked: number[] = [];
  const codes = newRecoveryCodes((count) => {
    asked.push(count);
    return randomBytes(count);
  });
  expect(asked).toEqual(Array.from({ length: 10 }, () => 10));
  expect(new Set(codes).size).toBe(10);
  for (const code of codes) expect(code).toMatch(/^[A-Z2-7]{4}(-[A-Z2-7]{4}){3}$/);
});

test("every bit counts", () => {
  const [zeros] = newRecoveryCodes((count) => Buffer.alloc(count));
  const [ones] = newRecoveryCodes((count) => Buffer.alloc(count, 0xff));
  const [counting] = newRecoveryCodes((count) =>
    Buffer.from("00443214c74254b635cf", "hex").subarray(0, count),
  );
  expect([zeros, ones, counting]).toEqual([
    "AAAA-AAAA-AAAA-AAAA",
    "7777-7777-7777-7777",
    "ABCD-EFGH-IJKL-MNOP",
  ]);
});

test.each(["ABCD-EFGH-IJKL-MNOP", "abcd-efgh-ijkl-mnop", " abcdefghijklmnop\t", "ABCD EFGH–IJKL—MNOP"])(
  "%j is one code, however it is typed",
  (typed) => {
    expect(normalCode(typed)).toBe("ABCDEFGHIJKLMNOP");
    expect(recoveryCodeHash(normalCode(typed))).toHaveLength(32);
  },
);

test.each(["", "ABCDEFGHIJKLMNO", "ABCDEFGHIJKLMNOPQ", "ABCDEFGHIJKLMNO1", "123456"])(
  "%j has not the form of one",
  (code) => {
    expect(recoveryCodeHash(code)).toBeUndefined();
  },
);
