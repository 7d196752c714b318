import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { corpusFolder, hasCorpus, readCorpus } from "../../tests/support/corpora.ts";
import { sampleLog } from "./log.fixture.ts";
import { CompactRange, isConsistent, isIncluded } from "./merkle.ts";

interface InclusionVector {
  leafIdx: number;
  treeSize: number;
  root: string;
  leafHash: string;
  proof: string[] | null;
  wantErr: boolean;
}

interface ConsistencyVector {
  size1: number;
  size2: number;
  root1: string;
  root2: string;
  proof: string[] | null;
  wantErr: boolean;
}

const bytes = (text: string) => Buffer.from(text, "base64");

function vectorFiles(folder: string): string[] {
  if (!hasCorpus("merkle")) return [];
  const names = readdirSync(join(corpusFolder("merkle"), folder), { recursive: true, encoding: "utf8" });
  return names.filter((name) => name.endsWith(".json")).map((name) => join(folder, name));
}

describe.skipIf(!hasCorpus("merkle"))("transparency-dev (../shared/corpora/merkle)", () => {
  test("there are vectors, so that nothing below passes by looking at none", () => {
    expect([vectorFiles("inclusion").length, vectorFiles("consistency").length]).toEqual([
      expect.toSatisfy((count) => count > 50),
      expect.toSatisfy((count) => count > 50),
    ]);
  });

  test.each(vectorFiles("inclusion"))("%s", (file) => {
    const { leafIdx, treeSize, root, leafHash, proof, wantErr } = readCorpus<InclusionVector>("merkle", file);
    const claim = { index: leafIdx, size: treeSize, leafHash: bytes(leafHash), root: bytes(root) };
    expect(isIncluded({ ...claim, proof: (proof ?? []).map(bytes) })).toBe(!wantErr);
  });

  test.each(vectorFiles("consistency"))("%s", (file) => {
    const { size1, size2, root1, root2, proof, wantErr } = readCorpus<ConsistencyVector>("merkle", file);
    const claim = { firstSize: size1, firstRoot: bytes(root1), secondSize: size2, secondRoot: bytes(root2) };
    expect(isConsistent({ ...claim, proof: (proof ?? []).map(bytes) })).toBe(!wantErr);
  });
});

test("a compact range has the root of RFC 9162's definition at every size, from wherever it goes on", () => {
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
