import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { BadEvidenceError } from "./finding.ts";

type CoseMap = ReadonlyMap<number, number | Buffer>;

const KTY = 1;
const ALG = 3;
const [CRV_OR_N, X_OR_E, Y] = [-1, -2, -3];
const ES256 = -7;
const EDDSA = -8;
const RS256 = -257;
const COORDINATE_BYTES = 32;

/** @returns whether the signature is of this COSE_Key: ES256, EdDSA (Ed25519) or RS256. @throws {BadEvidenceError} */
export function isSignedBy(publicKey: Buffer, data: Buffer, signature: Buffer): boolean {
  const key = readMap(publicKey);
  const alg = key.get(ALG);
  if (alg === EDDSA) return verify(null, data, edKey(key), signature);
  if (alg === ES256) return verify("sha256", data, { key: ecKey(key), dsaEncoding: "der" }, signature);
  if (alg === RS256) return verify("sha256", data, rsaKey(key), signature);
  throw new BadEvidenceError("public_key", `the passkey has the unknown algorithm ${alg}`);
}

/** RFC 8037 §2 in COSE: RFC 9053 §7.2. */
function edKey(key: CoseMap): KeyObject {
  expect(key, { [KTY]: 1, [CRV_OR_N]: 6 });
  return imported({ kty: "OKP", crv: "Ed25519", x: bytes(key, X_OR_E, COORDINATE_BYTES) });
}

/** RFC 9053 §7.1.1. */
function ecKey(key: CoseMap): KeyObject {
  expect(key, { [KTY]: 2, [CRV_OR_N]: 1 });
  const [x, y] = [bytes(key, X_OR_E, COORDINATE_BYTES), bytes(key, Y, COORDINATE_BYTES)];
  return imported({ kty: "EC", crv: "P-256", x, y });
}

/** RFC 8230 §4. */
function rsaKey(key: CoseMap): KeyObject {
  expect(key, { [KTY]: 3 });
  return imported({ kty: "RSA", n: bytes(key, CRV_OR_N), e: bytes(key, X_OR_E) });
}

function imported(jwk: { kty: string; [member: string]: string }): KeyObject {
  try {
    return createPublicKey({ key: jwk, format: "jwk" });
  } catch {
    throw new BadEvidenceError("public_key", "the passkey's public key is invalid");
  }
}

function expect(key: CoseMap, members: Readonly<Record<number, number>>): void {
  for (const [label, value] of Object.entries(members)) {
    if (key.get(Number(label)) !== value) throw invalid();
  }
}

function bytes(key: CoseMap, label: number, length?: number): string {
  const value = key.get(label);
  if (!Buffer.isBuffer(value) || (length !== undefined && value.length !== length)) throw invalid();
  return value.toString("base64url");
}

/** The part of CBOR that these keys need: one map of integers to integers and byte strings. RFC 8949 §3. */
function readMap(data: Buffer): CoseMap {
  let at = 0;
  const head = (): { major: number; argument: number } => {
    const first = data[at];
    if (first === undefined) throw invalid();
    at += 1;
    const info = first & 0x1f;
    if (info < 24) return { major: first >> 5, argument: info };
    const length = { 24: 1, 25: 2 }[info];
    if (length === undefined || at + length > data.length) throw invalid();
    at += length;
    return { major: first >> 5, argument: data.readUIntBE(at - length, length) };
  };
  const value = (): number | Buffer => {
    const { major, argument } = head();
    if (major === 0) return argument;
    if (major === 1) return -1 - argument;
    if (major !== 2 || at + argument > data.length) throw invalid();
    at += argument;
    return data.subarray(at - argument, at);
  };
  const { major, argument: members } = head();
  if (major !== 5) throw invalid();
  const map = new Map<number, number | Buffer>();
  for (let member = 0; member < members; member += 1) {
    const label = value();
    if (typeof label !== "number" || map.has(label)) throw invalid();
    map.set(label, value());
  }
  if (at !== data.length) throw invalid();
  return map;
}

function invalid(): BadEvidenceError {
  return new BadEvidenceError("public_key", "the passkey's public key is not a COSE_Key of its algorithm");
}
