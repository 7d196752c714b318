import { createPublicKey, hash, type KeyObject, verify } from "node:crypto";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { parseStrictJson } from "#kit/values/strict-json.ts";
import { decodeSegment } from "#token-client/compact-jws.ts";
import { normalOrigin } from "./authority.ts";

/** RFC 7518, RFC 8037 and, for `Ed25519`, RFC 9864. */
export const DPOP_ALGORITHMS = ["ES256", "EdDSA", "Ed25519"] as const;

export interface DpopProof {
  /** JWK thumbprint of the key (RFC 7638), in base64url. */
  jkt: string;
  jti: string;
  nonce: string | undefined;
}

/** What the proof must be for. */
export interface ProvenCall {
  method: string;
  /** As the client called it. Query and fragment are ignored. */
  url: string;
  /** Undefined in a request for tokens. */
  token: { text: string; jkt: string } | undefined;
}

/** The reasons, in the order of the checks; the signature is last. */
export const PROOF_FAILURES = {
  form: "it is not one JWS in compact form, of at most 4,096 characters",
  typ: "its `typ` is not `dpop+jwt`",
  alg: `its \`alg\` is none of ${DPOP_ALGORITHMS.join(", ")}`,
  jwk: "its `jwk` is not a public key for its `alg`",
  htm: "its `htm` is not the method of the call",
  htu: "its `htu` is not the URL of the call",
  iat: "its `iat` is more than 30 s away from now",
  jti: "its `jti` is not a text of 1 to 128 characters",
  nonce: "its `nonce` is not a text",
  key: "its key is not the one that the access token is bound to",
  ath: "its `ath` is not the hash of the access token",
  signature: "its signature does not fit its `jwk`",
} as const;
export type ProofFailure = keyof typeof PROOF_FAILURES;

const MAX_PROOF_CHARACTERS = 4_096;
const MAX_JTI_CHARACTERS = 128;
const MAX_NONCE_CHARACTERS = 128;
/** In both directions, for clients whose clock is ahead. */
export const MAX_PROOF_AGE_MS = 30_000;
const MAX_KEYS = 10_000;
const SIGNATURE_BYTES = 64;

const JWS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;
/** 32 bytes in base64url, in their one form. */
const COORDINATE = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;
const PRIVATE_MEMBERS = ["d", "k", "p", "q", "dp", "dq", "qi", "oth"];
/** Printable, without quotes and backslash. */
const URL_TEXT = /^[\x21\x23-\x5b\x5d-\x7e]{1,8192}$/;
const UNRESERVED = /^[A-Za-z0-9._~-]$/;

type Members = Record<string, unknown>;

/** Checks proofs, and remembers the keys of valid ones. */
export class DpopProofs {
  /** Keyed by thumbprint. */
  readonly #keys = boundedCache<string, KeyObject>(MAX_KEYS);
  readonly #nowMs: () => number;

  /** @param nowMs since the epoch. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Does not know whether the proof was used before. @see RFC 9449 §4.3. */
  check(text: string, call: ProvenCall): DpopProof | ProofFailure {
    const parts = text.length > MAX_PROOF_CHARACTERS ? null : JWS.exec(text);
    const header = parts && membersOf(parts[1]);
    const payload = parts && membersOf(parts[2]);
    if (!parts || !header || !payload || header.crit !== undefined) return "form";
    if (header.typ !== "dpop+jwt") return "typ";
    const { alg } = header;
    if (!DPOP_ALGORITHMS.some((known) => known === alg)) return "alg";
    const jwk = publicJwk(header.jwk, alg === "ES256");
    if (jwk === undefined) return "jwk";
    const jkt = hash("sha256", JSON.stringify(jwk), "base64url");
    const failure = claimsFailure(payload, call, jkt, this.#nowMs());
    if (failure !== undefined) return failure;
    const signature = decodeSegment(parts[3] ?? "");
    const key = this.#keys.get(jkt) ?? keyFrom(jwk);
    if (key === undefined) return "jwk";
    const signed = Buffer.from(text.slice(0, text.lastIndexOf(".")));
    const isSigned =
      signature?.length === SIGNATURE_BYTES &&
      verify(alg === "ES256" ? "sha256" : null, signed, { key, dsaEncoding: "ieee-p1363" }, signature);
    if (!isSigned) return "signature";
    this.#keys.set(jkt, key);
    return { jkt, jti: payload.jti as string, nonce: payload.nonce as string | undefined };
  }
}

function claimsFailure(
  { htm, htu, iat, jti, nonce, ath }: Members,
  { method, url, token }: ProvenCall,
  jkt: string,
  nowMs: number,
): ProofFailure | undefined {
  if (htm !== method) return "htm";
  if (typeof htu !== "string" || !isSameUrl(htu, url)) return "htu";
  // NumericDate may have a fraction (RFC 7519 §2).
  if (typeof iat !== "number" || Math.abs(iat * 1_000 - nowMs) > MAX_PROOF_AGE_MS) return "iat";
  if (!isText(jti, MAX_JTI_CHARACTERS)) return "jti";
  if (nonce !== undefined && !isText(nonce, MAX_NONCE_CHARACTERS)) return "nonce";
  if (token === undefined) return undefined;
  if (jkt !== token.jkt) return "key";
  return ath === hash("sha256", token.text, "base64url") ? undefined : "ath";
}

function isText(value: unknown, maxCharacters: number): boolean {
  return typeof value === "string" && value.length > 0 && value.length <= maxCharacters;
}

function membersOf(segment: string | undefined): Members | undefined {
  const bytes = decodeSegment(segment ?? "");
  if (bytes === undefined) return undefined;
  try {
    const value = parseStrictJson(bytes);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Members) : undefined;
  } catch {
    return undefined;
  }
}

/** Its required members in the order of RFC 7638 §3. */
type PublicJwk =
  | { crv: "P-256"; kty: "EC"; x: string; y: string }
  | { crv: "Ed25519"; kty: "OKP"; x: string };

function publicJwk(value: unknown, isEc: boolean): PublicJwk | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const jwk = value as Members;
  if (PRIVATE_MEMBERS.some((name) => jwk[name] !== undefined)) return undefined;
  const { kty, crv, x, y } = jwk;
  if (!isCoordinate(x)) return undefined;
  if (!isEc) return kty === "OKP" && crv === "Ed25519" ? { crv, kty, x } : undefined;
  return kty === "EC" && crv === "P-256" && isCoordinate(y) ? { crv, kty, x, y } : undefined;
}

function isCoordinate(value: unknown): value is string {
  return typeof value === "string" && COORDINATE.test(value);
}

/** Undefined for a point that is not on the curve. */
function keyFrom(jwk: PublicJwk): KeyObject | undefined {
  try {
    return createPublicKey({ key: jwk, format: "jwk" });
  } catch {
    return undefined;
  }
}

function isSameUrl(given: string, called: string): boolean {
  if (given === called) return true;
  const wanted = normalized(called);
  return wanted !== undefined && normalized(given) === wanted;
}

/** RFC 3986 §6.2.2 and §6.2.3. */
function normalized(text: string): string | undefined {
  const url = URL_TEXT.test(text) ? URL.parse(text) : null;
  if (url === null || url.username !== "" || url.password !== "") return undefined;
  return normalOrigin(url.origin) + url.pathname.replace(/%[0-9a-f]{2}/gi, normalizedEscape);
}

function normalizedEscape(written: string): string {
  const character = String.fromCharCode(Number.parseInt(written.slice(1), 16));
  return UNRESERVED.test(character) ? character : written.toUpperCase();
}
