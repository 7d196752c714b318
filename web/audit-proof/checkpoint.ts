import { bytesOf, HASH_BYTES, hashOf, isSame, Unproven, utf8 } from "./bytes.ts";

const ED25519 = 1;
const CHECKPOINT =
  /^(?<origin>[^\n]+)\n(?<size>[1-9]\d{0,15})\n(?<root>[A-Za-z0-9+/]{43}=)\ntime (?<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\n$/u;
const SIGNATURE = /^— (?<name>[^\s+]+) (?<signed>[A-Za-z0-9+/]+={0,2})$/u;
const VERIFIER_KEY = /^(?<name>[^\s+]+)\+(?<id>[0-9a-f]{8})\+(?<encoded>[A-Za-z0-9+/]+={0,2})$/u;

/** What a signature has proven. */
export interface Checkpoint {
  /** Number of entries that it covers. */
  size: number;
  /** Root hash of their tree, encoded in base64. */
  root: string;
  /** RFC 3339. */
  time: string;
}

/** C2SP tlog-checkpoint in a signed note. @throws {Unproven} `form`, `signature`. */
export async function openCheckpoint(note: string, verifierKey: string): Promise<Checkpoint> {
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
  return { size: Number(size), root, time };
}

/** @param text `name+key id+base64(0x01 ‖ public key)`. @throws {Unproven} `form`. */
export async function parseKey(text: string) {
  const { name, id = "", encoded = "" } = VERIFIER_KEY.exec(text)?.groups ?? {};
  const bytes = bytesOf(encoded, 1 + HASH_BYTES);
  if (name === undefined || bytes[0] !== ED25519) throw new Unproven("form");
  const expected = (await hashOf(utf8(`${name}\n`), bytes)).subarray(0, 4);
  if ([...expected].map((byte) => byte.toString(16).padStart(2, "0")).join("") !== id)
    throw new Unproven("form");
  const publicKey = await crypto.subtle.importKey("raw", bytes.slice(1), "Ed25519", false, ["verify"]);
  return { name, id: expected, publicKey };
}
