import { createPublicKey, hash, type KeyObject, verify } from "node:crypto";
import { bytesOfBase64 } from "./base64.ts";

const ED25519 = 0x01;
const KEY_BYTES = 32;
const MAX_NOTE_CHARACTERS = 16_384;
const MAX_SIGNATURES = 16;

export interface VerifierKey {
  /** The log's origin. */
  name: string;
  id: string;
  publicKey: KeyObject;
}

export class NoteError extends Error {
  override readonly name = "NoteError";
  readonly code: "form" | "signature";

  constructor(code: "form" | "signature", message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Parses `name+key id+base64(0x01 ‖ public key)`. @throws {NoteError} `form`.
 * @see https://c2sp.org/signed-note
 */
export function parseVerifierKey(text: string): VerifierKey {
  const [, name = "", id = "", encoded = ""] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/u.exec(text) ?? [];
  const bytes = bytesOfBase64(encoded, 1 + KEY_BYTES);
  if (bytes === undefined) throw new NoteError("form", "is not name+key id+base64 of an Ed25519 key");
  if (bytes[0] !== ED25519) throw new NoteError("form", "is not an Ed25519 key");
  const expected = keyIdOf(name, bytes);
  if (id !== expected) throw new NoteError("form", `names the key id ${id}, but its key has ${expected}`);
  const jwk = { kty: "OKP", crv: "Ed25519", x: bytes.subarray(1).toString("base64url") };
  return { name, id, publicKey: createPublicKey({ key: jwk, format: "jwk" }) };
}

/** The same public key under another name, and so with another id. */
export function renamedKey({ publicKey }: VerifierKey, name: string): VerifierKey {
  const { x = "" } = publicKey.export({ format: "jwk" });
  const bytes = Buffer.concat([Buffer.of(ED25519), Buffer.from(x, "base64url")]);
  return { name, id: keyIdOf(name, bytes), publicKey };
}

function keyIdOf(name: string, bytes: Buffer): string {
  return hash("sha256", Buffer.concat([Buffer.from(`${name}\n`), bytes]), "hex").slice(0, 8);
}

/**
 * Ignores signatures of unknown keys, as C2SP requires.
 * @throws {NoteError} also for an invalid signature of a known key.
 */
export function openNote(note: string, keys: readonly VerifierKey[]): string[] {
  const end = note.lastIndexOf("\n\n");
  const isPlain = note.length <= MAX_NOTE_CHARACTERS && note.isWellFormed() && !hasControls(note);
  if (end < 1 || !note.endsWith("\n") || !isPlain) throw new NoteError("form", "is not a signed note");
  const text = note.slice(0, end + 1);
  const signatures = note
    .slice(end + 2, -1)
    .split("\n")
    .map(readSignature);
  if (signatures.length > MAX_SIGNATURES) throw new NoteError("form", "has too many signatures");
  const data = Buffer.from(text);
  let isSigned = false;
  for (const { name, id, signature } of signatures) {
    const key = keys.find((candidate) => candidate.name === name && candidate.id === id);
    if (key === undefined) continue;
    if (!verify(null, data, key.publicKey, signature)) {
      throw new NoteError("signature", `has an invalid signature of the key ${id}`);
    }
    isSigned = true;
  }
  if (!isSigned) {
    const theirs = signatures.map(({ name, id }) => `${name} ${id}`).join(", ");
    const ours = keys.map(({ name, id }) => `${name} ${id}`).join(", ");
    throw new NoteError("signature", `is signed by ${theirs}, not by the trusted key ${ours}`);
  }
  return text.slice(0, -1).split("\n");
}

function readSignature(line: string): { name: string; id: string; signature: Buffer } {
  const [, name = "", encoded = ""] = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u.exec(line) ?? [];
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.length < 5 || bytes.toString("base64") !== encoded)
    throw new NoteError("form", "has an invalid signature line");
  return { name, id: bytes.toString("hex", 0, 4), signature: bytes.subarray(4) };
}

function hasControls(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x20 && code !== 0x0a) return true;
  }
  return false;
}
