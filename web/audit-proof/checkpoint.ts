import { bytesOf, HASH_BYTES, hashOf, isSame, Unproven, utf8 } from "./bytes.ts";

const ED25519 = 1;
const CHECKPOINT =
  /^(?<origin>[^\n]+)\n(?<size>[1-9]\d{0,15})\n(?<root>[A-Za-z0-9+/]{43}=)\ntime (?<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\n$/u;
const SIGNATURE = /^— (?<name>[^\s+]+) (?<signed>[A-Za-z0-9+/]+={0,2})$/u;
const VERIFIER_KEY = /^(?<name>[^\s+]+)\+(?<id>[0-9a-f]{8})\+(?<encoded>[A-Za-z0-9+/]+={0,2})$/u;

/** What a signature has proven. */
export interface Checkpoint {
  /** Of the log that it is of. */
  origin: string;
  /** Number of entries that it covers. */
  size: number;
  /** Root hash of their tree, encoded in base64. */
  root: string;
  /** RFC 3339. */
  time: string;
}

/**
 * C2SP tlog-checkpoint in a signed note.
 * @param verifierKey of log 0. @param log its number: each log has the same key under a name of its own.
 * @throws {Unproven} `form`, `signature`.
 */
export async function openCheckpoint(note: string, verifierKey: string, log = 0): Promise<Checkpoint> {
  const key = await parseKey(verifierKey, log);
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
  return { origin, size: Number(size), root, time };
}

/** @param text `name+key id+base64(0x01 ‖ public key)` of log 0. @throws {Unproven} `form`. */
export async function parseKey(text: string, log = 0) {
  const { name, id = "", encoded = "" } = VERIFIER_KEY.exec(text)?.groups ?? {};
  const bytes = bytesOf(encoded, 1 + HASH_BYTES);
  if (name === undefined || bytes[0] !== ED25519) throw new Unproven("form");
  const idUnder = async (origin: string) => (await hashOf(utf8(`${origin}\n`), bytes)).subarray(0, 4);
  const expected = [...(await idUnder(name))].map((byte) => byte.toString(16).padStart(2, "0"));
  if (expected.join("") !== id) throw new Unproven("form");
  const publicKey = await crypto.subtle.importKey("raw", bytes.slice(1), "Ed25519", false, ["verify"]);
  const origin = log === 0 ? name : `${name}/${log}`;
  return { name: origin, id: await idUnder(origin), publicKey };
}
