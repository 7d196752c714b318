import { hash } from "node:crypto";
import { bytesOfBase64 } from "./base64.ts";
import type { EntryLine } from "./export-line.ts";
import { entryProblem, leafDataOf } from "./logged-entry.ts";
import { HASH_BYTES, leafHashOf } from "./merkle.ts";
import type { FindingCode } from "./verdict.ts";

export class BadEntryError extends Error {
  override readonly name = "BadEntryError";
  readonly code: FindingCode;
  readonly sequence: number;

  constructor(code: FindingCode, sequence: number, message: string) {
    super(message);
    this.code = code;
    this.sequence = sequence;
  }
}

export interface Place {
  firstSequence: number;
  sequence: number;
  chainHash: Buffer;
}

/** @throws {BadEntryError} */
export function checkEntry(line: EntryLine, place: Place): { leafHash: Buffer; chainHash: Buffer } {
  const { sequence } = place;
  const problem = entryProblem(line.entry);
  if (problem !== undefined) throw new BadEntryError("form", sequence, `Entry ${sequence} ${problem}`);
  checkSequence(line.entry.sequence, place);
  const data = leafDataOf(line.entry);
  if (data === undefined)
    throw new BadEntryError("form", sequence, `Entry ${sequence} is not well-formed Unicode`);
  const leafHash = leafHashOf(data);
  if (leafHash.toString("base64") !== line.leafHash) {
    const message = `Entry ${sequence} does not match its leaf hash: one of them was changed`;
    throw new BadEntryError("leaf", sequence, message);
  }
  const chainHash = hash("sha256", Buffer.concat([place.chainHash, leafHash]), "buffer");
  if (chainHash.toString("base64") !== line.chainHash) {
    const message = `Entry ${sequence} does not match its chain hash: it, or the previous entry with its hashes, was changed`;
    throw new BadEntryError("chain", sequence, message);
  }
  checkAddress(line, sequence);
  return { leafHash, chainHash };
}

function checkSequence(found: number, { sequence, firstSequence }: Place): void {
  if (found === sequence) return;
  if (found > sequence) {
    const message = `Entry ${sequence} is missing: entry ${found} is in its place`;
    throw new BadEntryError("missing", sequence, message);
  }
  // Either of the two entries may be forged, so neither is trusted.
  if (found === sequence - 1 && found >= firstSequence)
    throw new BadEntryError("order", found, `Entry ${found} is repeated`);
  throw new BadEntryError("order", sequence, `Entry ${found} is in the place of entry ${sequence}`);
}

function checkAddress({ entry, claimedEmail }: EntryLine, sequence: number): void {
  if (claimedEmail === undefined) return;
  const salt = bytesOfBase64(claimedEmail.salt, HASH_BYTES);
  const found = salt && hash("sha256", Buffer.concat([salt, Buffer.from(claimedEmail.address)]), "hex");
  if (found === entry.actor.claimedEmailHash) return;
  const message = `The claimed e-mail address of entry ${sequence}, or its salt, does not match its hash`;
  throw new BadEntryError("claimed_email", sequence, message);
}
