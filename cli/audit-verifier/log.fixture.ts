import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import type { EntryLine, ExportLine } from "./export-line.ts";
import type { LoggedEntry } from "./logged-entry.ts";

/** Implements docs/audit-log-format.md independently of the verifier. */
export interface SampleLog {
  origin: string;
  verifierKey: string;
  entries: EntryLine[];
  root(size: number): Buffer;
  checkpoint(size: number, root?: Buffer): string;
  removal(first: number, last: number): string;
  sign(lines: readonly string[]): string;
  export(options?: ExportOptions): ExportLine[];
}

interface ExportOptions {
  first?: number;
  last?: number;
  /** Ordered sizes. Default: one of the last entry. */
  checkpoints?: number[];
  /** Last sequences of the removals. */
  removedUpTo?: number[];
}

export interface SampleLogOptions {
  origin?: string;
  key?: SampleKey;
  change?: (entry: LoggedEntry) => void;
  isErased?: (sequence: number) => boolean;
}

export type SampleKey = { privateKey: KeyObject; publicKey: KeyObject };

export const ORIGIN = "gatehouse.test/audit";
export const sampleKey = (): SampleKey => generateKeyPairSync("ed25519");

const sha256 = (...parts: (Buffer | string)[]) =>
  createHash("sha256")
    .update(Buffer.concat(parts.map((part) => Buffer.from(part as string))))
    .digest();

export function sampleLog(size: number, options: SampleLogOptions = {}): SampleLog {
  const {
    origin = ORIGIN,
    key = sampleKey(),
    change,
    isErased = (sequence) => sequence % 10 === 4,
  } = options;
  const leaves: Buffer[] = [];
  const chain: Buffer[] = [Buffer.alloc(32)];
  const entries: EntryLine[] = [];
  for (let sequence = 1; sequence <= size; sequence += 1) {
    const address = sequence % 5 === 4 ? `user-${sequence}@exämple.com` : undefined;
    const salt = sha256(`salt ${sequence}`);
    const entry = sampleEntry(sequence, address === undefined ? "" : sha256(salt, address).toString("hex"));
    change?.(entry);
    const leafHash = sha256(Buffer.of(0), canonical(entry));
    leaves.push(leafHash);
    const chainHash = sha256(chain[sequence - 1] as Buffer, leafHash);
    chain.push(chainHash);
    entries.push({
      type: "entry",
      entry,
      leafHash: leafHash.toString("base64"),
      chainHash: chainHash.toString("base64"),
      ...(address !== undefined &&
        !isErased(sequence) && { claimedEmail: { salt: salt.toString("base64"), address } }),
    });
  }
  const subtree = treeOf(leaves);
  const root = (of: number) => subtree(0, of);
  const { note, verifierKey } = signer(origin, key);
  const time = (of: number) => `time ${timeOf(of, 500)}`;
  const checkpoint = (of: number, hash = root(of)) =>
    note([origin, String(of), hash.toString("base64"), time(of)]);
  const removal = (first: number, last: number) =>
    note([`${origin}/removal`, String(first), String(last), root(last).toString("base64"), time(last)]);
  return {
    origin,
    verifierKey,
    entries,
    root,
    checkpoint,
    removal,
    sign: note,
    export({ first = 1, last = size, checkpoints = [last], removedUpTo = [] } = {}) {
      const treeHead = perfectSubtrees(first - 1).map(([from, to]) => subtree(from, to).toString("base64"));
      const chainHash = (chain[first - 1] as Buffer).toString("base64");
      return [
        { type: "log", v: 1, origin, firstSequence: first, lastSequence: last, treeHead, chainHash },
        ...removedUpTo.map((to, index) => ({
          type: "removal" as const,
          note: removal((removedUpTo[index - 1] ?? 0) + 1, to),
        })),
        ...structuredClone(entries.slice(first - 1, last)),
        ...checkpoints.map((of) => ({ type: "checkpoint" as const, note: checkpoint(of) })),
      ];
    },
  };
}

/** Makes this entry of log 0 one that notes a checkpoint of another log. */
export function noteCheckpoint(entry: LoggedEntry, log: SampleLog, size: number): void {
  Object.assign(entry, {
    kind: "event",
    producer: "audit-service",
    action: "audit.checkpoint_noted",
    resource: log.origin,
    reason: `${size} ${log.root(size).toString("base64")}`,
  });
}

export function textOf(lines: readonly unknown[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function sampleEntry(sequence: number, claimedEmailHash: string): LoggedEntry {
  const isOutcome = sequence % 2 === 0;
  return {
    v: 1,
    sequence,
    id: `01936d3e-7a10-7cc0-a51b-${String(sequence).padStart(12, "0")}`,
    producer: "gateway",
    kind: isOutcome ? "outcome" : "intent",
    callId: `01936d3e-7a10-7cc0-a51c-${String(Math.ceil(sequence / 2)).padStart(12, "0")}`,
    occurredAt: timeOf(sequence, 0),
    receivedAt: timeOf(sequence, 3),
    actor: {
      userId: `user-${sequence % 7}`,
      role: "USER",
      sessionId: `session-${sequence % 11}`,
      claimedEmailHash,
    },
    clientIp: "203.0.113.7",
    userAgent: 'Mozilla/5.0 (X11; "Linux" \\ x86_64) \u2028 ünïcødé 😀\t\u0001',
    method: "POST",
    route: "/payments",
    resource: `payment-${sequence}`,
    action: "payments.create",
    requestId: `01936d3e-7a10-7cc0-a51d-${String(sequence).padStart(12, "0")}`,
    traceId: "0af7651916cd43dd8448eb211c80319c",
    outcome: isOutcome ? "success" : "",
    errorCode: "",
    reason: "",
    httpStatus: isOutcome ? 201 : 0,
    latencyUs: isOutcome ? 1_000 + sequence : 0,
  };
}

function timeOf(sequence: number, plusMs: number): string {
  return new Date(Date.UTC(2026, 10, 21, 9, 30) + sequence * 1_000 + plusMs).toISOString();
}

/** RFC 8785 for the values of an entry. */
function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`;
}

/** MTH of RFC 9162 §2.1.1 over leaf hashes. Caches perfect subtrees. */
function treeOf(leaves: readonly Buffer[]) {
  const known = new Map<string, Buffer>();
  return function subtree(from: number, to: number): Buffer {
    const size = to - from;
    if (size === 0) return sha256("");
    if (size === 1) return leaves[from] as Buffer;
    const name = `${from} ${to}`;
    const found = known.get(name);
    if (found !== undefined) return found;
    let split = 1;
    while (split * 2 < size) split *= 2;
    const hash = sha256(Buffer.of(1), subtree(from, from + split), subtree(from + split, to));
    if (split * 2 === size) known.set(name, hash);
    return hash;
  };
}

function perfectSubtrees(size: number): [number, number][] {
  const ranges: [number, number][] = [];
  for (let from = 0, left = size; left > 0; ) {
    const width = 2 ** Math.floor(Math.log2(left));
    ranges.push([from, from + width]);
    from += width;
    left -= width;
  }
  return ranges;
}

function signer(name: string, { privateKey, publicKey }: SampleKey) {
  const raw = publicKey.export({ type: "spki", format: "der" }).subarray(-32);
  const typed = Buffer.concat([Buffer.of(1), raw]);
  const id = sha256(`${name}\n`, typed).subarray(0, 4);
  return {
    verifierKey: `${name}+${id.toString("hex")}+${typed.toString("base64")}`,
    note(lines: readonly string[]): string {
      const text = `${lines.join("\n")}\n`;
      const signature = sign(null, Buffer.from(text), privateKey);
      return `${text}\n— ${name} ${Buffer.concat([id, signature]).toString("base64")}\n`;
    },
  };
}
