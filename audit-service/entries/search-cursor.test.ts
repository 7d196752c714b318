import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { decodeCursor, encodeCursor } from "./search-cursor.ts";

const KEY = Buffer.alloc(32, 7);
const END = { occurredAt: new Date("2026-03-01T10:00:00.123Z"), log: 3, position: 42n };
const CURSOR = encodeCursor(KEY, END);

/** As another version would make it, with the same key. */
function signed(version: number): string {
  const body = Buffer.from(CURSOR, "base64url").subarray(0, 18);
  body[0] = version;
  return Buffer.concat([body, createHmac("sha256", KEY).update(body).digest().subarray(0, 16)]).toString(
    "base64url",
  );
}

test.each([1n, 42n, 2n ** 63n - 1n])("position %s survives its cursor", (position) => {
  expect(decodeCursor(KEY, encodeCursor(KEY, { ...END, position }))).toEqual({ ...END, position });
});

test("a time before 1970 survives its cursor", () => {
  const end = { ...END, occurredAt: new Date(-1) };
  expect(decodeCursor(KEY, encodeCursor(KEY, end))).toEqual(end);
});

test("a cursor with any changed bit is refused", () => {
  const bytes = Buffer.from(CURSOR, "base64url");
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const changed = Buffer.from(bytes);
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    expect(decodeCursor(KEY, changed.toString("base64url"))).toBeUndefined();
  }
});

test.each([
  ["empty", ""],
  ["no base64url", "!!!"],
  ["base64 padding", `${CURSOR}=`],
  ["something skipped by a lenient decoder", `${CURSOR}\n`],
  ["cut", CURSOR.slice(0, -1)],
  ["another deployment's", encodeCursor(Buffer.alloc(32, 8), END)],
  ["a version's to come, signed", signed(3)],
  ["unsigned", Buffer.from("1:42").toString("base64url")],
])("%s is refused as a cursor", (_name, cursor) => {
  expect(decodeCursor(KEY, cursor)).toBeUndefined();
});
