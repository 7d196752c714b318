import { type CryptoKey, calculateJwkThumbprint, importJWK, type JWK } from "jose";
import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";

/** Signature algorithms by key. A key decides which ones it is used with, not the header (RFC 8725 §3.1). */
const ALGORITHMS = {
  Ed25519: ["EdDSA", "Ed25519"],
  "P-256": ["ES256"],
  RSA: ["PS256", "RS256"],
} as const;

type KeyType = keyof typeof ALGORITHMS;

export const CLIENT_ALGORITHMS: readonly string[] = Object.values(ALGORITHMS).flat();

const MIN_RSA_BYTES = 256;
const MAX_RSA_BYTES = 512;
const part = z.string().regex(/^[A-Za-z0-9_-]{1,683}$/);
const KEY_ID = /^\P{C}{1,128}$/u;
const kid = z.string().optional();
const common = { kid, use: z.literal("sig").optional(), alg: z.string().max(16).optional() };
/** The least exponent that is safe for signatures is also the only one in use (FIPS 186-5 §5.1). */
const publicJwk = z.discriminatedUnion("kty", [
  z.object({ ...common, kty: z.literal("OKP"), crv: z.literal("Ed25519"), x: part }),
  z.object({ ...common, kty: z.literal("EC"), crv: z.literal("P-256"), x: part, y: part }),
  z.object({ ...common, kty: z.literal("RSA"), n: part, e: z.literal("AQAB") }),
]);
const SECRET_MEMBERS = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/** One that the key itself names is the only one (RFC 7517 §4.4); `EdDSA` and `Ed25519` are two names of one. */
export function algorithmsOf({ alg, crv, kty }: JWK): readonly string[] {
  const type = kty === "RSA" ? "RSA" : crv;
  if (type === undefined || !Object.hasOwn(ALGORITHMS, type)) return [];
  const ofType: readonly string[] = ALGORITHMS[type as KeyType];
  return type === "RSA" && alg !== undefined ? ofType.filter((name) => name === alg) : ofType;
}

/** @returns the key with its `kid`; without one, its thumbprint (RFC 7638). @throws {DomainError} `validation_failed`. */
export async function checkPublicKey(json: string): Promise<JWK & { kid: string }> {
  const given = parseObject(json);
  if (SECRET_MEMBERS.some((name) => Object.hasOwn(given, name)))
    throw unusable("is a private or a symmetric key: replace it, it is not secret any more");
  const { data: parsed } = publicJwk.safeParse(given);
  if (parsed === undefined) throw unusable("must be a public Ed25519, P-256 or RSA key (e = 65537)");
  if (parsed.kid !== undefined && !KEY_ID.test(parsed.kid))
    throw unusable("has a `kid` that is not 1 to 128 printable characters");
  const key: JWK = { ...parsed } as JWK;
  const algorithms = algorithmsOf(key);
  if (key.alg !== undefined && !algorithms.includes(key.alg))
    throw unusable("has another `alg` than its kind");
  if (parsed.kty === "RSA") {
    const modulus = Buffer.from(parsed.n, "base64url");
    const isStrong = modulus.length >= MIN_RSA_BYTES && (modulus[0] ?? 0) >= 0x80;
    if (!isStrong || modulus.length > MAX_RSA_BYTES) throw unusable("must have 2048 to 4096 bits");
  }
  try {
    await importJWK(key, algorithms[0]);
  } catch {
    throw unusable("is not a key of its curve");
  }
  return { ...key, kid: key.kid ?? (await calculateJwkThumbprint(key)) };
}

export function importClientKey(jwk: JWK, algorithm: string): Promise<CryptoKey | Uint8Array> {
  return importJWK(jwk, algorithm);
}

function parseObject(json: string): object {
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === "object" && value !== null) return value;
  } catch {}
  throw unusable("must be a JSON Web Key");
}

function unusable(message: string): DomainError {
  const fields = [{ field: "publicKey", code: "invalid_format", message }];
  return new DomainError("validation_failed", undefined, { fields });
}
