import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import type { Assertion } from "./verify-assertion.ts";
import type { Attestation } from "./verify-attestation.ts";

export type TestAlgorithm = "ES256" | "EdDSA" | "RS256" | "ES384";

export const UP = 0x01;
export const UV = 0x04;
export const BE = 0x08;
export const BS = 0x10;
const AT = 0x40;
export const ED = 0x80;

/** What a ceremony says instead of the truth. */
export interface Ceremony {
  type: string;
  challenge: string;
  origin: string;
  crossOrigin?: boolean;
  topOrigin?: string;
  rpId: string;
  flags: number;
  counter: number;
  userHandle: string;
  fmt: string;
  attStmt: Map<unknown, unknown>;
  /** Behind the public key. */
  padding: Buffer;
  /** Not the one in the authenticator data. */
  credentialId: string;
  signedWith: KeyObject;
}

/** RFC 9053 §2, RFC 8812 §2. */
const ALGORITHMS: Record<TestAlgorithm, number> = { ES256: -7, ES384: -35, EdDSA: -8, RS256: -257 };

const RP_ID = "gatehouse.example";
const ORIGIN = "https://gatehouse.example";

/** One credential, built byte by byte (WebAuthn Level 3 §6.1, §6.5). */
export class TestAuthenticator {
  readonly credentialId = randomBytes(32);
  readonly privateKey: KeyObject;
  counter = 0;
  userHandle = "";
  readonly #algorithm: TestAlgorithm;
  readonly #publicKey: KeyObject;
  readonly #party: { rpId: string; origin: string };

  constructor(algorithm: TestAlgorithm = "ES256", party = { rpId: RP_ID, origin: ORIGIN }) {
    const { publicKey, privateKey } = keyPair(algorithm);
    this.privateKey = privateKey;
    this.#publicKey = publicKey;
    this.#algorithm = algorithm;
    this.#party = party;
  }

  get id(): string {
    return this.credentialId.toString("base64url");
  }

  create(options: { challenge: string; user: { id: string } }, changes: Partial<Ceremony> = {}): Attestation {
    this.userHandle = options.user.id;
    const said = this.#ceremony("webauthn.create", options.challenge, changes);
    const credential = Buffer.concat([
      Buffer.alloc(16),
      uint16(this.credentialId.length),
      this.credentialId,
      cbor(coseKey(this.#algorithm, this.#publicKey)),
      said.padding,
    ]);
    const authData = Buffer.concat([authenticatorData({ ...said, flags: said.flags | AT }), credential]);
    const signed = Buffer.concat([authData, createHash("sha256").update(clientData(said)).digest()]);
    const object = new Map<unknown, unknown>([
      ["fmt", said.fmt],
      ["attStmt", said.fmt === "packed" ? this.#selfAttestation(signed, said) : said.attStmt],
      ["authData", authData],
    ]);
    return {
      credentialId: said.credentialId,
      clientDataJson: clientData(said).toString("base64url"),
      attestationObject: cbor(object).toString("base64url"),
      transports: ["internal", "hybrid"],
    };
  }

  get(options: { challenge: string }, changes: Partial<Ceremony> = {}): Assertion {
    const said = this.#ceremony("webauthn.get", options.challenge, changes);
    const data = authenticatorData(said);
    const clientDataJson = clientData(said);
    const signed = Buffer.concat([data, createHash("sha256").update(clientDataJson).digest()]);
    return {
      credentialId: said.credentialId,
      clientDataJson: clientDataJson.toString("base64url"),
      authenticatorData: data.toString("base64url"),
      signature: sign(this.#digest, signed, said.signedWith).toString("base64url"),
      userHandle: said.userHandle,
    };
  }

  get #digest(): "sha256" | "sha384" | null {
    return this.#algorithm === "EdDSA" ? null : this.#algorithm === "ES384" ? "sha384" : "sha256";
  }

  /** WebAuthn Level 3 §8.2, with what `attStmt` says instead. */
  #selfAttestation(signed: Buffer, { signedWith, attStmt }: Ceremony): Map<unknown, unknown> {
    return new Map<unknown, unknown>([
      ["alg", ALGORITHMS[this.#algorithm]],
      ["sig", sign(this.#digest, signed, signedWith)],
      ...attStmt,
    ]);
  }

  #ceremony(type: string, challenge: string, changes: Partial<Ceremony>): Ceremony {
    return {
      type,
      challenge,
      ...this.#party,
      flags: UP | UV,
      counter: this.counter,
      userHandle: this.userHandle,
      fmt: "none",
      attStmt: new Map(),
      padding: Buffer.of(),
      credentialId: this.id,
      signedWith: this.privateKey,
      ...changes,
    };
  }
}

function keyPair(algorithm: TestAlgorithm): { publicKey: KeyObject; privateKey: KeyObject } {
  switch (algorithm) {
    case "ES256":
      return generateKeyPairSync("ec", { namedCurve: "P-256" });
    case "ES384":
      return generateKeyPairSync("ec", { namedCurve: "P-384" });
    case "EdDSA":
      return generateKeyPairSync("ed25519");
    case "RS256":
      return generateKeyPairSync("rsa", { modulusLength: 2_048 });
  }
}

function clientData({ type, challenge, origin, crossOrigin = false, topOrigin }: Ceremony): Buffer {
  return Buffer.from(
    JSON.stringify({ type, challenge, origin, crossOrigin, ...(topOrigin && { topOrigin }) }),
  );
}

/** Behind the public key, with the flag ED: an extension that nobody knows. */
export function extensionOf(size: number): Buffer {
  return cbor(new Map([["x", Buffer.alloc(size)]]));
}

function authenticatorData({ rpId, flags, counter }: Ceremony): Buffer {
  const signCount = Buffer.alloc(4);
  signCount.writeUInt32BE(counter);
  return Buffer.concat([createHash("sha256").update(rpId).digest(), Buffer.of(flags), signCount]);
}

/** RFC 9053 §7. */
function coseKey(algorithm: TestAlgorithm, key: KeyObject): Map<unknown, unknown> {
  const jwk = key.export({ format: "jwk" });
  const part = (name: "x" | "y" | "n" | "e") => Buffer.from(jwk[name] ?? "", "base64url");
  const entries: Record<TestAlgorithm, [number, unknown][]> = {
    ES256: [
      [1, 2],
      [3, ALGORITHMS.ES256],
      [-1, 1],
      [-2, part("x")],
      [-3, part("y")],
    ],
    ES384: [
      [1, 2],
      [3, ALGORITHMS.ES384],
      [-1, 2],
      [-2, part("x")],
      [-3, part("y")],
    ],
    EdDSA: [
      [1, 1],
      [3, ALGORITHMS.EdDSA],
      [-1, 6],
      [-2, part("x")],
    ],
    RS256: [
      [1, 3],
      [3, ALGORITHMS.RS256],
      [-1, part("n")],
      [-2, part("e")],
    ],
  };
  return new Map(entries[algorithm]);
}

/** RFC 8949: integers, byte strings, text and maps. */
function cbor(value: unknown): Buffer {
  if (typeof value === "number") return value < 0 ? head(1, -1 - value) : head(0, value);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (typeof value === "string")
    return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Map) {
    return Buffer.concat([
      head(5, value.size),
      ...[...value].flatMap(([key, item]) => [cbor(key), cbor(item)]),
    ]);
  }
  throw new Error("not encoded here");
}

function head(major: number, length: number): Buffer {
  if (length < 24) return Buffer.of((major << 5) | length);
  if (length < 256) return Buffer.of((major << 5) | 24, length);
  return Buffer.concat([Buffer.of((major << 5) | 25), uint16(length)]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}
