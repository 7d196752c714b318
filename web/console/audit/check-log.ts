import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { type ProofProblem, Unproven } from "../../audit-proof/bytes.ts";
import { type Checkpoint, openCheckpoint } from "../../audit-proof/checkpoint.ts";
import { hasOnlyGrown } from "../../audit-proof/tree.ts";
import { type ShownEntry, type SignedHead, verifyEntry } from "../../audit-proof/verify-entry.ts";
import type { Call } from "../../session/session.ts";
import { fingerprintOf, type LogMemory, readMemory, rememberCheckpoint, trustKey } from "./log-memory.ts";

/**
 * `key`: the server names another key than the trusted one. `announced`: another one than `npm start`. `shorter`: the log ends before a checkpoint that was seen. `rewritten`: it does
 * not begin with what was seen. `withheld`: no proof of an entry that a seen checkpoint covers. `other`: the answer is about another entry.
 */
export type Finding = ProofProblem | "key" | "announced" | "shorter" | "rewritten" | "withheld" | "other";

/** What an answer contradicts. Never an outage. */
export interface Alarm {
  finding: Finding;
  at: string;
  /** Of the entry that was asked for, if it was one. */
  entryId?: string;
  /** Everything that it was found in. */
  evidence: object;
}

export interface LogState {
  checkpoint: Checkpoint;
  key: string;
  /** How many logs there are: the checkpoint is log 0's, which commits to the others. */
  logs: number;
  comparedAt?: string;
  /** What this browser knew before. */
  since?: { size: number; seenAt: string };
}

export interface ProvenEntry {
  /** What the log says. */
  entry: AuditEntry;
  /** As it was hashed. */
  leafData: string;
  leafHash: string;
  /** Of the entry's log. */
  checkpoint: Checkpoint;
  /** Of log 0. Absent while it does not commit to `checkpoint`. */
  head?: Checkpoint;
}

export type Checked<T> =
  | { kind: "proven"; found: T }
  | { kind: "waiting"; entry?: AuditEntry }
  /** By this browser, or at an address without TLS. */
  | { kind: "unsupported" }
  | { kind: "alarm"; alarm: Alarm };

/** Reads the latest checkpoint, and checks it against the trusted key and against what this browser has seen. @throws {GatehouseError} */
export async function checkLog(call: Call): Promise<Checked<LogState>> {
  // Before the call: what was seen by then must be in the answer.
  const memory = readMemory();
  return checked({ memory }, async (evidence) => {
    const answer = await call("GET /admin/audit/checkpoint").catch((error: unknown) => {
      if (!(error instanceof GatehouseError && error.status === 404)) throw error;
      if (memory.last !== undefined) throw new Contradiction("shorter");
      return undefined;
    });
    evidence.checkpoint = answer;
    if (answer === undefined) return { kind: "waiting" };
    const { checkpoint: note, verifierKey, logs } = answer;
    if (memory.key !== undefined && verifierKey !== memory.key) throw new Contradiction("key");
    const { announced } = memory;
    if (announced !== undefined && (await fingerprintOf(textOf(verifierKey))) !== announced)
      throw new Contradiction("announced");
    const checkpoint = await openCheckpoint(textOf(note), textOf(verifierKey));
    await admit(call, memory, { ...checkpoint, note }, evidence);
    // The person may have entered one meanwhile.
    const { key: entered, comparedAt: enteredAt } = readMemory();
    const isNew = entered === undefined || (entered === verifierKey && enteredAt === undefined);
    const comparedAt = isNew && announced !== undefined ? new Date().toISOString() : memory.comparedAt;
    if (entered === undefined || comparedAt !== memory.comparedAt) trustKey(verifierKey, comparedAt);
    const { last } = memory;
    const state: LogState = {
      checkpoint,
      key: verifierKey,
      logs: logs.length,
      ...(comparedAt !== undefined && { comparedAt }),
      ...(last !== undefined && { since: last }),
    };
    return { kind: "proven", found: state };
  });
}

/** Reads an entry and checks everything about it, with the key that `checkLog` has left. @throws {GatehouseError} */
export async function checkEntry(call: Call, id: string): Promise<Checked<ProvenEntry>> {
  const memory = readMemory();
  return checked({ id, memory }, async (evidence) => {
    const answer = await call("GET /admin/audit/{id}", { path: { id } });
    evidence.answer = answer;
    const { entry, proof } = answer;
    if (proof === null || memory.key === undefined) {
      const isCovered =
        entry.log === 0 && entry.sequence !== null && entry.sequence <= (memory.last?.size ?? 0);
      if (proof === null && isCovered) throw new Contradiction("withheld");
      if (entry.id !== id) throw new Contradiction("other");
      return { kind: "waiting", entry };
    }
    const verdict = await verifyEntry(entry as object as ShownEntry, proof, memory.key);
    if (!verdict.isProven) throw new Contradiction(verdict.problem);
    const { leaf, checkpoint, head } = verdict;
    if (leaf.id !== id) throw new Contradiction("other");
    if (head !== undefined) await admit(call, memory, head, evidence);
    // An address that was claimed is beside the log.
    const actor = { ...leaf.actor, claimedEmail: entry.actor?.claimedEmail };
    const { leafData, leafHash } = proof;
    const proven = { ...leaf, actor } as unknown as AuditEntry;
    return {
      kind: "proven",
      found: { entry: proven, leafData, leafHash, checkpoint, ...(head && { head }) },
    };
  });
}

/** A signed checkpoint of log 0 becomes the last one seen, if the log has only grown since. */
async function admit(
  call: Call,
  { last }: LogMemory,
  seen: SignedHead,
  evidence: Record<string, unknown>,
): Promise<void> {
  const { note, ...checkpoint } = seen;
  if (last !== undefined) {
    if (checkpoint.size < last.size) throw new Contradiction("shorter");
    const proof = checkpoint.size === last.size ? [] : await readGrowth(call, last.size, checkpoint.size);
    evidence.consistency = proof;
    if (!(await hasOnlyGrown(last, checkpoint, proof))) throw new Contradiction("rewritten");
  }
  rememberCheckpoint(checkpoint, note);
}

async function readGrowth(call: Call, from: number, to: number): Promise<string[]> {
  const { proof } = await call("GET /admin/audit/consistency", { query: { from, to } }).catch(
    (error: unknown) => {
      // A signed checkpoint has this size.
      if (error instanceof GatehouseError && error.status === 404) throw new Contradiction("shorter");
      throw error;
    },
  );
  if (!Array.isArray(proof)) throw new Contradiction("form");
  return proof.map(textOf);
}

class Contradiction extends Error {
  readonly finding: Finding;
  constructor(finding: Finding) {
    super(finding);
    this.finding = finding;
  }
}

function textOf(value: unknown): string {
  if (typeof value !== "string") throw new Contradiction("form");
  return value;
}

async function checked<T>(
  known: { id?: string; memory: LogMemory },
  check: (evidence: Record<string, unknown>) => Promise<Checked<T>>,
): Promise<Checked<T>> {
  if (!("subtle" in crypto)) return { kind: "unsupported" };
  const evidence: Record<string, unknown> = { ...known };
  try {
    return await check(evidence);
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotSupportedError") return { kind: "unsupported" };
    const finding = findingOf(error);
    if (finding === undefined) throw error;
    const of = known.id !== undefined && { entryId: known.id };
    return { kind: "alarm", alarm: { finding, at: new Date().toISOString(), ...of, evidence } };
  }
}

function findingOf(error: unknown): Finding | undefined {
  if (error instanceof Contradiction) return error.finding;
  if (error instanceof Unproven) return error.problem;
  // An answer of success that is no JSON of this API, or lacks a member.
  if (error instanceof GatehouseError) return error.status >= 200 && error.status < 300 ? "form" : undefined;
  return error instanceof TypeError || error instanceof DOMException ? "form" : undefined;
}
