import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import { expect, test } from "vitest";
import { loggedEntry } from "../entries/entry.fixture.ts";
import { claimedEmailHash } from "../entries/store-entries.ts";
import { chainHash, FIRST_CHAIN_HASH, leafData } from "./leaf.ts";
import { hashLeaf } from "./merkle-tree.ts";

const sha256 = (...parts: (string | Uint8Array)[]) =>
  createHash("sha256")
    .update(Buffer.concat(parts.map((part) => Buffer.from(part))))
    .digest();

test("leaf data is canonical JSON as documented, byte by byte", () => {
  const entry = {
    ...loggedEntry({ id: "0190b6a0-0000-7000-8000-0000000000ff", userAgent: 'é"\\\u20ac' }),
    sequence: 7,
  };
  expect(leafData(entry)).toBe(
    '{"action":"payments.create","actor":{"claimedEmailHash":"","role":"USER",' +
      '"sessionId":"0190b6a0-0000-7000-8000-000000000002","userId":"0190b6a0-0000-7000-8000-000000000001"},' +
      '"callId":"0190b6a0-0000-7000-8000-00000000000a","clientIp":"203.0.113.7","errorCode":"forbidden",' +
      '"httpStatus":403,"id":"0190b6a0-0000-7000-8000-0000000000ff","kind":"outcome","latencyUs":12345,' +
      '"method":"POST","occurredAt":"2026-03-01T10:00:00.123Z","outcome":"failure","producer":"gateway","reason":"",' +
      '"receivedAt":"2026-03-01T10:00:00.456Z","requestId":"0190b6a0-0000-7000-8000-000000000003",' +
      '"resource":"pay_1","route":"/payments","sequence":7,"traceId":"4bf92f3577b34da6a3ce929d0e0e4736",' +
      '"userAgent":"é\\"\\\\€","v":1}',
  );
});

test("leaf data is what a library of RFC 8785 makes of it", () => {
  const data = leafData({ ...loggedEntry({ userAgent: "\u0007\u2028\u{1f600}/" }), sequence: 2 ** 53 - 1 });
  expect(data).toBe(canonicalize(JSON.parse(data)));
});

test("hashes are as in docs/audit-log-format.md", () => {
  const leaf = hashLeaf("é");
  expect(leaf).toEqual(sha256(Buffer.of(0), "é"));
  expect(FIRST_CHAIN_HASH).toEqual(Buffer.alloc(32));
  const first = chainHash(FIRST_CHAIN_HASH, leaf);
  expect(first).toEqual(sha256(Buffer.alloc(32), leaf));
  expect(chainHash(first, leaf)).toEqual(sha256(first, leaf));
  expect(claimedEmailHash(Buffer.alloc(32, 1), "ada@example.com")).toBe(
    sha256(Buffer.alloc(32, 1), "ada@example.com").toString("hex"),
  );
});
