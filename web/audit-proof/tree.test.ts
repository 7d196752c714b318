import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { corpusFolder, hasCorpus, readCorpus } from "#tests/support/house/corpora.ts";
import { bytesOf, Unproven } from "./bytes.ts";
import { hasOnlyGrown, rootOf } from "./tree.ts";

const sha256 = (...parts: Uint8Array[]) =>
  parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const node = (left: Uint8Array, right: Uint8Array) => sha256(Buffer.of(1), left, right);
const LEAVES = Array.from({ length: 40 }, (_, index) => sha256(Buffer.of(0), Buffer.from(`leaf ${index}`)));
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");

/** RFC 9162 §2.1.1 and §2.1.4.1, word for word. */
const splitOf = (size: number): number => 2 ** (Math.ceil(Math.log2(size)) - 1);
function mth(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 1) return leaves[0] as Buffer;
  const k = splitOf(leaves.length);
  return node(mth(leaves.slice(0, k)), mth(leaves.slice(k)));
}
function subproof(m: number, leaves: readonly Buffer[], isWhole: boolean): Buffer[] {
  if (m === leaves.length) return isWhole ? [] : [mth(leaves)];
  const k = splitOf(leaves.length);
  if (m <= k) return [...subproof(m, leaves.slice(0, k), isWhole), mth(leaves.slice(k))];
  return [...subproof(m - k, leaves.slice(k), false), mth(leaves.slice(0, k))];
}
const tree = (size: number) => ({ size, root: base64(mth(LEAVES.slice(0, size))) });
const proofOf = (first: number, second: number) => subproof(first, LEAVES.slice(0, second), true).map(base64);

const swapped = (text: string) => (text.startsWith("A") ? `B${text.slice(1)}` : `A${text.slice(1)}`);

test("a tree has only grown if its proof says so, and not by a proof that was changed, cut or lengthened", async () => {
  for (let second = 1; second <= LEAVES.length; second += 1) {
    for (let first = 1; first <= second; first += 1) {
      const [earlier, later, proof] = [tree(first), tree(second), proofOf(first, second)];
      expect(await hasOnlyGrown(earlier, later, proof), `${first} ${second}`).toBe(true);
      const others = [
        ...proof.map((hash, at) => proof.with(at, swapped(hash))),
        ...(proof.length > 0 ? [proof.slice(1), proof.slice(0, -1)] : []),
        [...proof, later.root],
      ];
      for (const other of others) expect(await hasOnlyGrown(earlier, later, other)).toBe(false);
      expect(await hasOnlyGrown({ ...earlier, root: swapped(earlier.root) }, later, proof)).toBe(false);
      expect(await hasOnlyGrown(earlier, { ...later, root: swapped(later.root) }, proof)).toBe(false);
      if (first < second) expect(await hasOnlyGrown(later, earlier, proof)).toBe(false);
    }
  }
});

test("a hash of a proof that has another length has no form", async () => {
  await expect(hasOnlyGrown(tree(3), tree(5), ["AAAA", ...proofOf(3, 5).slice(1)])).rejects.toThrow(Unproven);
});

interface Vector {
  wantErr: boolean;
  proof: string[] | null;
}
const vectorsOf = <T>(kind: string) =>
  readdirSync(join(corpusFolder("merkle"), kind), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .map((name) => ({ name, vector: readCorpus<Vector & T>("merkle", join(kind, name)) }));
/** A refusal, too, is no acceptance. */
const isAccepted = (check: Promise<boolean>) =>
  check.catch((error: unknown) => {
    if (error instanceof Unproven) return false;
    throw error;
  });

describe.skipIf(!hasCorpus("merkle"))("external test vectors (skipped without them)", () => {
  test("accept and refuse consistency proofs as the vectors say", async () => {
    const vectors = vectorsOf<{ size1: number; size2: number; root1: string; root2: string }>("consistency");
    expect(vectors.length).toBeGreaterThan(50);
    for (const { name, vector } of vectors) {
      const { size1, size2, root1, root2, proof, wantErr } = vector;
      // Of an empty tree, which no checkpoint has, there is nothing to say.
      if (size1 < 1 || size2 < 1) continue;
      const trees = [
        { size: size1, root: root1 ?? "" },
        { size: size2, root: root2 ?? "" },
      ] as const;
      expect(await isAccepted(hasOnlyGrown(...trees, proof ?? [])), name).toBe(!wantErr);
    }
  });

  test("accept and refuse inclusion proofs as the vectors say", async () => {
    const vectors = vectorsOf<{ leafIdx: number; treeSize: number; root: string; leafHash: string }>(
      "inclusion",
    );
    expect(vectors.length).toBeGreaterThan(50);
    for (const { name, vector } of vectors) {
      const { leafIdx, treeSize, root, leafHash, proof, wantErr } = vector;
      const check = async () =>
        base64(await rootOf(leafIdx, treeSize, bytesOf(leafHash ?? "", 32), proof ?? [])) === root;
      expect(await isAccepted(check()), name).toBe(!wantErr);
    }
  });
});
