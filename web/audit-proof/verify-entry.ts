import { bytesOf, HASH_BYTES, hashOf, isSame, type ProofProblem, Unproven, utf8 } from "./bytes.ts";
import { type Checkpoint, openCheckpoint } from "./checkpoint.ts";
import { rootOf } from "./tree.ts";

const MAX_LOG = 255;

/**
 * Verifies in a browser what `GET /admin/audit/:id` answers: docs/audit-log-format.md, RFC 9162 §2.1.3.2 and the C2SP notes. Needs only
 * WebCrypto with Ed25519, and shares no line with what writes the log.
 */

export interface ShownEntry {
  readonly [member: string]: unknown;
  /** Not in the leaf: the checkpoint has the name of its log. */
  readonly log?: unknown;
  readonly actor?: Readonly<Record<string, unknown>>;
}

export interface LeafProof {
  leafData: string;
  leafHash: string;
  /** Base64, from the leaf up. */
  inclusionProof: readonly string[];
  /** Signed note. */
  checkpoint: string;
}

export interface EntryProof extends LeafProof {
  /** The proof of the entry in log 0 that commits to `checkpoint`, if that is another log's. Null while there is none. */
  noted: LeafProof | null;
}

/** With its note. */
export type SignedHead = Checkpoint & { note: string };

export type EntryVerdict =
  | {
      isProven: true;
      /** What the log says, and which one. Show this. */
      leaf: ShownEntry;
      /** Signed in the entry's log. */
      checkpoint: Checkpoint;
      /** Of log 0, which commits to everything. Absent while it does not commit to `checkpoint`. */
      head?: SignedHead;
    }
  | { isProven: false; problem: ProofProblem };

/**
 * @param verifierKey of log 0: `name+key id+base64(0x01 ‖ public key)`. A key from the gateway that also gave the proof proves only that the two
 *   fit each other: compare it with one that was kept before, or that came another way.
 */
export async function verifyEntry(
  shown: ShownEntry,
  proof: EntryProof,
  verifierKey: string,
): Promise<EntryVerdict> {
  try {
    if (!hasForm(shown, proof)) throw new Unproven("form");
    const { log, ...said } = shown;
    const { leaf, checkpoint } = await openLeaf(proof, verifierKey, Number(log));
    if (!shows(said, leaf)) throw new Unproven("entry");
    const head =
      log === 0
        ? { ...checkpoint, note: proof.checkpoint }
        : await headOver(checkpoint, proof.noted, verifierKey);
    return { isProven: true, leaf: { ...leaf, log }, checkpoint, ...(head && { head }) };
  } catch (error) {
    if (error instanceof Unproven) return { isProven: false, problem: error.problem };
    throw error;
  }
}

async function openLeaf(proof: LeafProof, verifierKey: string, log: number) {
  const leafHash = await hashOf(Uint8Array.of(0), utf8(proof.leafData));
  if (!isSame(leafHash, bytesOf(proof.leafHash, HASH_BYTES))) throw new Unproven("leaf_hash");
  const leaf = parseLeaf(proof.leafData);
  const checkpoint = await openCheckpoint(proof.checkpoint, verifierKey, log);
  const root = await rootOf(Number(leaf.sequence) - 1, checkpoint.size, leafHash, proof.inclusionProof);
  if (!isSame(root, bytesOf(checkpoint.root, HASH_BYTES))) throw new Unproven("root");
  return { leaf, checkpoint };
}

/** Log 0 says the size and root of another log's checkpoint, and only audit-service may. */
async function headOver(
  { origin, size, root }: Checkpoint,
  noted: LeafProof | null,
  verifierKey: string,
): Promise<SignedHead | undefined> {
  if (noted === null) return undefined;
  const { leaf, checkpoint } = await openLeaf(noted, verifierKey, 0);
  const said = {
    action: "audit.checkpoint_noted",
    producer: "audit-service",
    resource: origin,
    reason: `${size} ${root}`,
  };
  if (!shows(said, leaf)) throw new Unproven("noted");
  return { ...checkpoint, note: noted.checkpoint };
}

/** Types say what should come, not what came. */
function hasForm(shown: unknown, proof: unknown): boolean {
  if (!isObject(shown) || !isObject("actor" in shown ? shown.actor : {}) || !isObject(proof)) return false;
  const { log } = shown;
  if (!Number.isInteger(log) || Number(log) < 0 || Number(log) > MAX_LOG) return false;
  return hasFormOfLeaf(proof) && (proof.noted === null || hasFormOfLeaf(proof.noted));
}

function hasFormOfLeaf(proof: unknown): boolean {
  if (!isObject(proof) || !Array.isArray(proof.inclusionProof)) return false;
  const { leafData, leafHash, inclusionProof, checkpoint } = proof;
  return [leafData, leafHash, checkpoint, ...inclusionProof].every((part) => typeof part === "string");
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

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
