import { randomUUID } from "node:crypto";

const COUNTS = 0x1000;

let lastMs = 0;
let count = 0;

/**
 * A new id, above all before it of this process (RFC 9562 §5.7, and §6.2 method 1 for those of one millisecond). Node
 * draws many UUIDs at once, while random bytes for each cost a system call.
 */
export function uuidv7(): string {
  const now = Date.now();
  count = now > lastMs ? 0 : count + 1;
  if (count === COUNTS) {
    lastMs += 1;
    count = 0;
  }
  lastMs = Math.max(lastMs, now);
  const ms = lastMs.toString(16).padStart(12, "0");
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${count.toString(16).padStart(3, "0")}${randomUUID().slice(18)}`;
}
