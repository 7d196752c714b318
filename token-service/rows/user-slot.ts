import { createHash } from "node:crypto";
import { uuidv7 } from "#kit/values/uuid-v7.ts";

/** 0 to 4095. Of the user's id, which others may have made: only its hash is spread evenly. */
export function slotOfUser(userId: string): number {
  const bytes = Buffer.from(userId.replaceAll("-", ""), "hex");
  return createHash("sha256").update(bytes).digest().readUInt16BE() >>> 4;
}

/** A UUIDv7 that ends with the user's slot, so that a session is found by its id alone. */
export function newSessionId(userId: string): string {
  return uuidv7().slice(0, -3) + slotOfUser(userId).toString(16).padStart(3, "0");
}
