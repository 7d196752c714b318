import { createHash } from "node:crypto";

const node = (left: Buffer, right: Buffer) =>
  createHash("sha256").update(Buffer.of(1)).update(left).update(right).digest();
const half = (value: number) => Math.floor(value / 2);
const isOdd = (value: number) => value % 2 === 1;

/** RFC 9162 section 2.1.3.2, step by step. */
export function isIncluded(claim: {
  index: number;
  size: number;
  leafHash: Buffer;
  proof: readonly Buffer[];
  root: Buffer;
}): boolean {
  if (claim.index < 0 || claim.index >= claim.size || claim.leafHash.length !== 32) return false;
  let [fn, sn, r] = [claim.index, claim.size - 1, claim.leafHash];
  for (const p of claim.proof) {
    if (sn === 0) return false;
    if (isOdd(fn) || fn === sn) {
      r = node(p, r);
      while (!isOdd(fn) && fn !== 0) [fn, sn] = [half(fn), half(sn)];
    } else {
      r = node(r, p);
    }
    [fn, sn] = [half(fn), half(sn)];
  }
  return sn === 0 && r.equals(claim.root);
}

/** RFC 9162 section 2.1.4.2, step by step. Trees without leaves prove nothing. */
export function isConsistent(claim: {
  first: number;
  second: number;
  proof: readonly Buffer[];
  firstRoot: Buffer;
  secondRoot: Buffer;
}): boolean {
  const { first, second, firstRoot, secondRoot } = claim;
  if (first < 1 || first > second) return false;
  if (first === second) return claim.proof.length === 0 && firstRoot.equals(secondRoot);
  if (claim.proof.length === 0) return false;
  const isPowerOfTwo = 2 ** Math.floor(Math.log2(first)) === first;
  const [start, ...path] = isPowerOfTwo ? [firstRoot, ...claim.proof] : claim.proof;
  let [fn, sn, fr, sr] = [first - 1, second - 1, start as Buffer, start as Buffer];
  while (isOdd(fn)) [fn, sn] = [half(fn), half(sn)];
  for (const c of path) {
    if (sn === 0) return false;
    if (isOdd(fn) || fn === sn) {
      [fr, sr] = [node(c, fr), node(c, sr)];
      while (!isOdd(fn) && fn !== 0) [fn, sn] = [half(fn), half(sn)];
    } else {
      sr = node(sr, c);
    }
    [fn, sn] = [half(fn), half(sn)];
  }
  return sn === 0 && fr.equals(firstRoot) && sr.equals(secondRoot);
}
