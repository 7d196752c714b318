/**
 * `form`: not what the format says. `leaf_hash`: the leaf data has another hash. `entry`: what is shown is not what the log says. `root`: the
 * leaf is not in the tree. `signature`: the trusted key has not signed the checkpoint. `noted`: log 0 says something else than the checkpoint.
 */
export type ProofProblem = "form" | "leaf_hash" | "entry" | "root" | "signature" | "noted";

export class Unproven extends Error {
  readonly problem: ProofProblem;
  constructor(problem: ProofProblem) {
    super(problem);
    this.problem = problem;
  }
}

export const HASH_BYTES = 32;
export type Bytes = Uint8Array<ArrayBuffer>;

export async function hashOf(...parts: readonly Bytes[]): Promise<Bytes> {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/** Canonical base64 of `length` bytes, if that is given. */
export function bytesOf(text: string, length?: number): Bytes {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    throw new Unproven("form");
  }
  if (btoa(binary) !== text || (length ?? binary.length) !== binary.length) throw new Unproven("form");
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

export function utf8(text: string): Bytes {
  return new TextEncoder().encode(text);
}

export function isSame(first: Bytes, second: Bytes): boolean {
  return first.length === second.length && first.every((byte, at) => byte === second[at]);
}
