import fc from "fast-check";
import { expect, test } from "vitest";
import { sampleLog } from "./log.fixture.ts";
import { CompactRange } from "./merkle.ts";

const bytes = (text: string) => Buffer.from(text, "base64");

test("a compact range has the root of RFC 9162's definition at every size, from any start", () => {
  const log = sampleLog(130);
  const leaves = log.entries.map(({ leafHash }) => bytes(leafHash));
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 130 }), (start) => {
      const [head] = log.export({ first: start + 1 });
      if (head?.type !== "log") throw new Error("no head");
      const range = new CompactRange(start, head.treeHead.map(bytes));
      for (const leaf of leaves.slice(start)) {
        expect(range.root().equals(log.root(range.size))).toBe(true);
        range.append(leaf);
      }
      expect(range.root().equals(log.root(130))).toBe(true);
    }),
    { numRuns: 40 },
  );
});

test("a compact range needs exactly the number of subtrees of its size", () => {
  const hash = Buffer.alloc(32);
  expect(() => new CompactRange(5, [hash])).toThrow(RangeError);
  expect(() => new CompactRange(4, [hash, hash])).toThrow(RangeError);
  expect(new CompactRange(4, [hash]).size).toBe(4);
});
