import { createHmac, type KeyObject, sign, timingSafeEqual } from "node:crypto";
import { type Algorithm, DIGEST, forNode } from "#token-client/compact-jws.ts";

/** RFC 7518 §3.2: for tokens that token-service alone reads. */
export const MAC_ALGORITHM = "HS256";

/** jose needs three times the CPU: docs/decisions/tokens.md. */
export function signCompactJws(
  key: { id: string; algorithm: Algorithm; privateKey: KeyObject },
  type: string,
  claims: Record<string, unknown>,
): string {
  const input = signingInput({ alg: key.algorithm, typ: type, kid: key.id }, claims);
  const signature = sign(DIGEST[key.algorithm], Buffer.from(input), forNode(key.algorithm, key.privateKey));
  return `${input}.${signature.toString("base64url")}`;
}

/** @param key `secret` has 32 bytes. */
export function authenticateCompactJws(
  key: { id: string; secret: KeyObject },
  type: string,
  claims: Record<string, unknown>,
): string {
  const input = signingInput({ alg: MAC_ALGORITHM, typ: type, kid: key.id }, claims);
  return `${input}.${mac(input, key.secret).toString("base64url")}`;
}

/** Compares in constant time. The caller has checked the form. */
export function isAuthenticatedBy(text: string, secret: KeyObject): boolean {
  const end = text.lastIndexOf(".");
  const given = Buffer.from(text.slice(end + 1), "base64url");
  const expected = mac(text.slice(0, end), secret);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function mac(input: string, secret: KeyObject): Buffer {
  return createHmac("sha256", secret).update(input).digest();
}

function signingInput(header: Record<string, string>, claims: Record<string, unknown>): string {
  return `${encode(header)}.${encode(claims)}`;
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
