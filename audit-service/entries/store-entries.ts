import { createHash, randomBytes } from "node:crypto";
import type { ProducedEntry } from "./entry.ts";
import type { InsertedEntry } from "./entry-store.ts";

const CLAIMED_EMAIL_SALT_BYTES = 32;

interface Deps {
  insertEntries: (entries: readonly InsertedEntry[]) => Promise<number>;
}

/** Replaces claimed addresses by salted hashes. @returns the number of new entries. */
export async function storeEntries(deps: Deps, entries: readonly ProducedEntry[]): Promise<number> {
  const byOrigin = new Map<string, ProducedEntry>();
  for (const produced of entries) {
    const { producerName, producerId, sequence } = produced.origin;
    const key = `${producerName}:${producerId.toLowerCase()}:${sequence}`;
    if (!byOrigin.has(key)) byOrigin.set(key, produced);
  }
  return deps.insertEntries([...byOrigin.values()].map(withoutClaim));
}

function withoutClaim(produced: ProducedEntry): InsertedEntry {
  const address = produced.entry.actor.claimedEmail;
  if (address === "") return { ...produced, claimedEmailHash: "", claimedEmailSalt: undefined };
  const salt = randomBytes(CLAIMED_EMAIL_SALT_BYTES);
  return { ...produced, claimedEmailHash: claimedEmailHash(salt, address), claimedEmailSalt: salt };
}

/** SHA-256(salt ‖ UTF-8 address) in lower-case hexadecimal. */
export function claimedEmailHash(salt: Uint8Array, address: string): string {
  return createHash("sha256").update(salt).update(address, "utf8").digest("hex");
}
