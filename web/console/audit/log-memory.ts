import { hashOf, utf8 } from "../../audit-proof/bytes.ts";
import type { Checkpoint } from "../../audit-proof/checkpoint.ts";

/** What this browser keeps of the log, to notice when it becomes another one. Nothing in it is secret. */
export interface LogMemory {
  /** The only key that is trusted. Absent before the first visit. */
  key?: string;
  /** When the person compared it with one that came another way. */
  comparedAt?: string;
  /** What `npm start` said of the key, until it was compared with that: see `fingerprintOf`. */
  announced?: string;
  /** The largest checkpoint seen, with its signature, for `gatehouse audit verify`. */
  last?: Checkpoint & { note: string; seenAt: string };
}

const STORED = "gatehouse.audit-log";
const PUT_OFF = "gatehouse.audit-log.put-off";
const ANNOUNCED = /^#log=(?<fingerprint>[\w-]{22})$/;
const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);
const FINGERPRINT_BYTES = 16;

export function readMemory(): LogMemory {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}") as LogMemory;
  } catch {
    return {};
  }
}

export function trustKey(key: string, comparedAt?: string): void {
  const { comparedAt: _former, announced: _compared, ...kept } = readMemory();
  write({ ...kept, key, ...(comparedAt !== undefined && { comparedAt }) });
}

/** The part of an address after `#`, which no server sees, names the key that the process made which printed the address. */
export async function fingerprintOf(key: string): Promise<string> {
  const bytes = (await hashOf(utf8(key))).subarray(0, FINGERPRINT_BYTES);
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}

/** Only on this machine: elsewhere a link proves nothing, for anybody may have sent it. It replaces no key. */
export function noteAnnouncedKey(): void {
  const { fingerprint } = ANNOUNCED.exec(location.hash)?.groups ?? {};
  if (fingerprint === undefined) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  if (LOOPBACK.has(location.hostname)) write({ ...readMemory(), announced: fingerprint });
}

export function isPutOff(): boolean {
  try {
    return localStorage.getItem(PUT_OFF) !== null;
  } catch {
    return false;
  }
}

export function putOff(): void {
  try {
    localStorage.setItem(PUT_OFF, new Date().toISOString());
  } catch {
    // It is asked for again at the next visit.
  }
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
