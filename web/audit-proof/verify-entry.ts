/**
 * Verifies in a browser what `GET /admin/audit/:id` answers: docs/audit-log-format.md, RFC 9162 §2.1.3.2 and the C2SP notes. Needs only
 * WebCrypto with Ed25519, and shares no line with what writes the log.
 */

export interface ShownEntry {
  readonly [member: string]: unknown;
  readonly actor?: Readonly<Record<string, unknown>>;
}

export interface EntryProof {
  leafData: string;
  leafHash: string;
  /** Base64, from the leaf up. */
  inclusionProof: readonly string[];
  /** Signed note. */
  checkpoint: string;
}

export type EntryVerdict =
  | {
      isProven: true;
      /** What the log says. Show this. */
      leaf: ShownEntry;
      /** Number of entries that the checkpoint covers. */
      size: number;
      /** Of the checkpoint, RFC 3339. */
      time: string;
    }
  | { isProven: false; problem: ProofProblem };

/**
 * `form`: not what the format says. `leaf_hash`: the leaf data has another hash. `entry`: what is shown is not what the log says. `root`: the
 * leaf is not in the tree. `signature`: the trusted key has not signed the checkpoint.
 */
export type ProofProblem = "form" | "leaf_hash" | "entry" | "root" | "signature";

class Unproven extends Error {
  readonly problem: ProofProblem;
  constructor(problem: ProofProblem) {
    super(problem);
    this.problem = problem;
  }
}

const HASH_BYTES = 32;
const ED25519 = 1;
const MAX_PROOF = 64;
const CHECKPOINT =
  /^(?<origin>[^\n]+)\n(?<size>[1-9]\d{0,15})\n(?<root>[A-Za-z0-9+/]{43}=)\ntime (?<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\n$/u;
const SIGNATURE = /^— (?<name>[^\s+]+) (?<signed>[A-Za-z0-9+/]+={0,2})$/u;
const VERIFIER_KEY = /^(?<name>[^\s+]+)\+(?<id>[0-9a-f]{8})\+(?<encoded>[A-Za-z0-9+/]+={0,2})$/u;

/**
 * @param verifierKey `name+key id+base64(0x01 ‖ public key)`. A key from the gateway that also gave the proof proves only that the two
 *   fit each other: compare it with one that was kept before, or that came another way.
 */
export async function verifyEntry(
  shown: ShownEntry,
  proof: EntryProof,
  verifierKey: string,
): Promise<EntryVerdict> {
  try {
    const leafHash = await hashOf(Uint8Array.of(0), utf8(proof.leafData));
    if (!isSame(leafHash, bytesOf(proof.leafHash, HASH_BYTES))) throw new Unproven("leaf_hash");
    const leaf = parseLeaf(proof.leafData);
    if (!shows(shown, leaf)) throw new Unproven("entry");
    const { size, root, time } = await openCheckpoint(proof.checkpoint, verifierKey);
    const index = Number(leaf.sequence) - 1;
    if (!isSame(await rootOf(index, size, leafHash, proof.inclusionProof), root)) throw new Unproven("root");
    return { isProven: true, leaf, size, time };
  } catch (error) {
    if (error instanceof Unproven) return { isProven: false, problem: error.problem };
    throw error;
  }
}

function parseLeaf(data: string): ShownEntry {
  let leaf: unknown;
  try {
    leaf = JSON.parse(data);
  } catch {
    throw new Unproven("form");
  }
  if (!isObject(leaf) || !isObject(leaf.actor)) throw new Unproven("form");
  if (leaf.v !== 1 || !Number.isSafeInteger(leaf.sequence) || Number(leaf.sequence) < 1)
    throw new Unproven("form");
  return leaf as ShownEntry;
}

/** Whether the log says each shown member. A claimed address is beside the log, and not part of this proof. */
function shows({ actor = {}, ...shown }: ShownEntry, leaf: ShownEntry): boolean {
  const { claimedEmail: _erasable, ...proven } = actor;
  const says = (members: object, said: Readonly<Record<string, unknown>>) =>
    Object.entries(members).every(([name, value]) => Object.hasOwn(said, name) && said[name] === value);
  return says(shown, leaf) && says(proven, leaf.actor ?? {});
}

async function openCheckpoint(note: string, verifierKey: string) {
  const key = await parseKey(verifierKey);
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || !note.endsWith("\n")) throw new Unproven("form");
  const text = note.slice(0, end + 1);
  const { origin, size, root = "", time = "" } = CHECKPOINT.exec(text)?.groups ?? {};
  if (size === undefined || !Number.isSafeInteger(Number(size))) throw new Unproven("form");
  const lines = note.slice(end + 2, -1).split("\n");
  // Signatures of other keys are ignored, as C2SP requires.
  const ours = lines.flatMap((line) => {
    const { name, signed = "" } = SIGNATURE.exec(line)?.groups ?? {};
    const bytes = bytesOf(signed);
    return name === key.name && isSame(bytes.subarray(0, 4), key.id) ? [bytes.subarray(4)] : [];
  });
  const [signature] = ours;
  if (ours.length !== 1 || signature === undefined || origin !== key.name) throw new Unproven("signature");
  if (!(await crypto.subtle.verify("Ed25519", key.publicKey, signature, utf8(text))))
    throw new Unproven("signature");
  return { size: Number(size), root: bytesOf(root, HASH_BYTES), time };
}

async function parseKey(text: string) {
  const { name, id = "", encoded = "" } = VERIFIER_KEY.exec(text)?.groups ?? {};
  const bytes = bytesOf(encoded, 1 + HASH_BYTES);
  if (name === undefined || bytes[0] !== ED25519) throw new Unproven("form");
  const expected = (await hashOf(utf8(`${name}\n`), bytes)).subarray(0, 4);
  if ([...expected].map((byte) => byte.toString(16).padStart(2, "0")).join("") !== id)
    throw new Unproven("form");
  const publicKey = await crypto.subtle.importKey("raw", bytes.slice(1), "Ed25519", false, ["verify"]);
  return { name, id: expected, publicKey };
}

/** RFC 9162 §2.1.3.2. Numbers beyond 32 bits need arithmetic in place of shifts. */
async function rootOf(
  index: number,
  size: number,
  leafHash: Bytes,
  proof: readonly string[],
): Promise<Bytes> {
  if (index >= size || proof.length > MAX_PROOF) throw new Unproven("root");
  let [at, last, node] = [index, size - 1, leafHash];
  const half = (value: number) => Math.floor(value / 2);
  for (const encoded of proof) {
    const sibling = bytesOf(encoded, HASH_BYTES);
    if (last === 0) throw new Unproven("root");
    if (at % 2 === 1 || at === last) {
      node = await hashOf(Uint8Array.of(1), sibling, node);
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)];
    } else {
      node = await hashOf(Uint8Array.of(1), node, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  if (last !== 0) throw new Unproven("root");
  return node;
}

type Bytes = Uint8Array<ArrayBuffer>;

async function hashOf(...parts: readonly Bytes[]): Promise<Bytes> {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/** Canonical base64 of `length` bytes, if that is given. */
function bytesOf(text: string, length?: number): Bytes {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    throw new Unproven("form");
  }
  if (btoa(binary) !== text || (length ?? binary.length) !== binary.length) throw new Unproven("form");
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function utf8(text: string): Bytes {
  return new TextEncoder().encode(text);
}

function isSame(first: Bytes, second: Bytes): boolean {
  return first.length === second.length && first.every((byte, at) => byte === second[at]);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
