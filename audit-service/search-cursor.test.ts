import { expect, test } from "vitest";
import { decodeCursor, encodeCursor } from "./search-cursor.ts";

const text = (raw: string) => Buffer.from(raw).toString("base64url");

test.each([1n, 42n, 2n ** 63n - 1n])("position %s comes back from its cursor", (position) => {
  expect(decodeCursor(encodeCursor(position))).toBe(position);
});

test.each([
  ["empty", ""],
  ["no base64url", "!!!"],
  ["base64 padding", `${encodeCursor(10n)}=`],
  ["something skipped by a lenient decoder", `${encodeCursor(10n)}\n`],
  ["position 0", text("1:0")],
  ["a negative position", text("1:-1")],
  ["a leading zero", text("1:01")],
  ["a sign", text("1:+1")],
  ["a fraction", text("1:1.5")],
  ["another form", text("2:1")],
  ["SQL", text("1:1 or true")],
  ["more than a bigint", text(`1:${2n ** 63n}`)],
])("%s is no cursor", (_name, cursor) => {
  expect(decodeCursor(cursor)).toBeUndefined();
});
