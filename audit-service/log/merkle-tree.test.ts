import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { corpusFolder, hasCorpus, readCorpus } from "#tests/support/house/corpora.ts";
import { isConsistent, isIncluded } from "#tests/support/people/verify-proof.ts";
import {
  consistencyRanges,
  growTree,
  hashLeaf,
  hashRange,
  inclusionRanges,
  type LeafRange,
  subtreesOf,
} from "./merkle-tree.ts";

/** RFC 9162 section 2.1.1, word for word. */
function mth(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 1) return leaves[0] as Buffer;
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return createHash("sha256")
    .update(Buffer.of(1))
    .update(mth(leaves.slice(0, k)))
    .update(mth(leaves.slice(k)))
    .digest();
}

const leavesOf = (size: number) => Array.from({ length: size }, (_, index) => hashLeaf(`leaf ${index}`));

function grown(leaves: readonly Buffer[]) {
  const tree = growTree(0, []);
  const nodes = new Map<string, Buffer>(leaves.map((leaf, index) => [`0/${index}`, leaf]));
  for (const leaf of leaves) {
    for (const { level, index, hash } of tree.append(leaf)) nodes.set(`${level}/${index}`, hash);
  }
  const hashOf = (range: LeafRange) =>
    hashRange(subtreesOf(range).map(({ level, index }) => nodes.get(`${level}/${index}`) as Buffer));
  return { tree, hashOf };
}

const LEAVES = leavesOf(600);
const GROWN = grown(LEAVES);
const ROOTS = LEAVES.map((_, index) => mth(LEAVES.slice(0, index + 1)));
const readRoot = (size: number) => ROOTS[size - 1] as Buffer;

test("a tree grown leaf by leaf has the root of the definition, at every size up to 600", () => {
  const tree = growTree(0, []);
  for (const [index, leaf] of LEAVES.entries()) {
    tree.append(leaf);
    expect(tree.root()).toEqual(readRoot(index + 1));
  }
});

test("a tree restored at any size grows as an uninterrupted one", () => {
  for (let size = 1; size < 300; size += 1) {
    const compact = subtreesOf({ begin: 0, end: size }).map(({ level, index }) =>
      GROWN.hashOf({ begin: index * 2 ** level, end: (index + 1) * 2 ** level }),
    );
    const tree = growTree(size, compact);
    tree.append(LEAVES[size] as Buffer);
    expect(tree.root()).toEqual(readRoot(size + 1));
  }
});

test("every inclusion proof in every tree up to 130 leaves is accepted only for its leaf", () => {
  for (let size = 1; size <= 130; size += 1) {
    const root = readRoot(size);
    for (let index = 0; index < size; index += 1) {
      const proof = inclusionRanges(index, size).map(GROWN.hashOf);
      expect(isIncluded({ index, size, leafHash: LEAVES[index] as Buffer, proof, root })).toBe(true);
      const other = LEAVES[(index + 1) % 600] as Buffer;
      expect(isIncluded({ index, size, leafHash: other, proof, root })).toBe(false);
    }
  }
});

test("every consistency proof between trees up to 130 leaves is accepted only for its old root", () => {
  for (let second = 1; second <= 130; second += 1) {
    for (let first = 1; first <= second; first += 1) {
      const proof = consistencyRanges(first, second).map(GROWN.hashOf);
      const roots = { firstRoot: readRoot(first), secondRoot: readRoot(second) };
      expect(isConsistent({ first, second, proof, ...roots })).toBe(true);
      const wrong = { ...roots, firstRoot: LEAVES[0] as Buffer };
      if (first > 1) expect(isConsistent({ first, second, proof, ...wrong })).toBe(false);
    }
  }
});

test("proofs for sizes far above 2^32 have the lengths of the definition", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 2 ** 45 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (size, share) => {
        const index = Math.min(size - 1, Math.floor(share * size));
        const path = inclusionRanges(index, size);
        expect(path.length).toBeLessThanOrEqual(Math.ceil(Math.log2(size)));
        const covered = path.reduce((sum, { begin, end }) => sum + end - begin, 1);
        expect(covered).toBe(size);
        for (const range of [...path, ...consistencyRanges(index + 1, size)]) {
          const nodes = subtreesOf(range);
          expect(nodes.every((node) => Number.isSafeInteger(node.index))).toBe(true);
          expect(nodes.reduce((sum, { level }) => sum + 2 ** level, 0)).toBe(range.end - range.begin);
        }
      },
    ),
  );
});

interface Vector {
  leafIdx: number;
  treeSize: number;
  size1: number;
  size2: number;
  root: string;
  root1: string;
  root2: string;
  leafHash: string;
  proof: string[] | null;
  wantErr: boolean;
}

const vectorsOf = (kind: string) =>
  readdirSync(join(corpusFolder("merkle"), kind), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .map((name) => ({ name, vector: readCorpus<Vector>("merkle", join(kind, name)) }));
const bytes = (text: string | null | undefined) => Buffer.from(text ?? "", "base64");

// The functions that check the proofs above are tested with changed proofs, and with external vectors.
test("an inclusion proof that is shorter, longer, changed or of another leaf is refused", () => {
  for (let size = 2; size <= 40; size += 1) {
    const root = readRoot(size);
    for (let index = 0; index < size; index += 1) {
      const leafHash = LEAVES[index] as Buffer;
      const proof = inclusionRanges(index, size).map(GROWN.hashOf);
      for (const other of changesOf(proof)) {
        expect(isIncluded({ index, size, leafHash, proof: other, root })).toBe(false);
      }
      for (const place of [{ index: index + 1 }, { index: -1 }, { size: index }]) {
        expect(isIncluded({ index, size, leafHash, proof, root, ...place })).toBe(false);
      }
    }
  }
});

test("a consistency proof that is shorter, longer or changed is refused", () => {
  for (let second = 2; second <= 40; second += 1) {
    for (let first = 1; first < second; first += 1) {
      const proof = consistencyRanges(first, second).map(GROWN.hashOf);
      const roots = { firstRoot: readRoot(first), secondRoot: readRoot(second) };
      for (const other of changesOf(proof)) {
        expect(isConsistent({ first, second, proof: other, ...roots })).toBe(false);
      }
      expect(isConsistent({ first, second, proof, ...roots, secondRoot: LEAVES[0] as Buffer })).toBe(false);
    }
  }
});

function changesOf(proof: readonly Buffer[]): (readonly Buffer[])[] {
  const stranger = hashLeaf("stranger");
  const changed = proof.map((_, place) => proof.with(place, stranger));
  return [proof.slice(1), proof.slice(0, -1), [...proof, stranger], [stranger, ...proof], ...changed];
}

describe.skipIf(!hasCorpus("merkle"))("external test vectors (skipped without them)", () => {
  test("accept and refuse inclusion proofs as the vectors say", () => {
    const vectors = vectorsOf("inclusion");
    expect(vectors.length).toBeGreaterThan(50);
    for (const { name, vector } of vectors) {
      const { leafIdx: index, treeSize: size, root, leafHash, proof } = vector;
      const hashes = { leafHash: bytes(leafHash), root: bytes(root), proof: (proof ?? []).map(bytes) };
      expect(isIncluded({ index, size, ...hashes }), name).toBe(!vector.wantErr);
    }
  });

  test("accept and refuse consistency proofs as the vectors say", () => {
    const vectors = vectorsOf("consistency");
    expect(vectors.length).toBeGreaterThan(50);
    for (const { name, vector } of vectors) {
      const { size1: first, size2: second, root1, root2, proof } = vector;
      const hashes = { firstRoot: bytes(root1), secondRoot: bytes(root2), proof: (proof ?? []).map(bytes) };
      expect(isConsistent({ first, second, ...hashes }), name).toBe(!vector.wantErr);
    }
  });
});
