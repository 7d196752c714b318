import type { Checkpoint } from "../../audit-proof/checkpoint.ts";

/** What this browser keeps of the log, to notice when it becomes another one. Nothing in it is secret. */
export interface LogMemory {
  /** The only key that is trusted. Absent before the first visit. */
  key?: string;
  /** When the person compared it with one that came another way. */
  comparedAt?: string;
  /** The largest checkpoint seen, with its signature, for `gatehouse audit verify`. */
  last?: Checkpoint & { note: string; seenAt: string };
}

const STORED = "gatehouse.audit-log";

export function readMemory(): LogMemory {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}") as LogMemory;
  } catch {
    return {};
  }
}

export function trustKey(key: string, comparedAt?: string): void {
  const { comparedAt: _former, ...kept } = readMemory();
  write({ ...kept, key, ...(comparedAt !== undefined && { comparedAt }) });
}

/** Other tabs write too: the larger one stays. */
export function rememberCheckpoint(checkpoint: Checkpoint, note: string): void {
  const memory = readMemory();
  if ((memory.last?.size ?? 0) >= checkpoint.size) return;
  write({ ...memory, last: { ...checkpoint, note, seenAt: new Date().toISOString() } });
}

export const forgetLog = (): void => localStorage.removeItem(STORED);

/** A storage that is full or forbidden is no fault of the log: this visit is checked against what was kept before. */
function write(memory: LogMemory): void {
  try {
    localStorage.setItem(STORED, JSON.stringify(memory));
  } catch {
    // Nothing else depends on it.
  }
}
