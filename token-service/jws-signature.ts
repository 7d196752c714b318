import { type KeyObject, sign, verify } from "node:crypto";

/** RFC 8037 §3.1, RFC 7518 §3.4. */
export type Algorithm = "EdDSA" | "ES256";

const DIGEST: Record<Algorithm, string | null> = { EdDSA: null, ES256: "sha256" };

/** jose needs three times the CPU: docs/decisions/0008-signatures-by-node-crypto.md. */
export function signCompactJws(
  key: { id: string; algorithm: Algorithm; privateKey: KeyObject },
  type: string,
  claims: Record<string, unknown>,
): string {
  const header = encode({ alg: key.algorithm, typ: type, kid: key.id });
  const input = `${header}.${encode(claims)}`;
  const options = { key: key.privateKey, dsaEncoding: "ieee-p1363" } as const;
  return `${input}.${sign(DIGEST[key.algorithm], Buffer.from(input), options).toString("base64url")}`;
}

/** The caller has checked the form. */
export function isSignedBy(text: string, key: { algorithm: Algorithm; publicKey: KeyObject }): boolean {
  const end = text.lastIndexOf(".");
  const signature = Buffer.from(text.slice(end + 1), "base64url");
  if (signature.length !== 64) return false; // Length for both algorithms.
  const options = { key: key.publicKey, dsaEncoding: "ieee-p1363" } as const;
  return verify(DIGEST[key.algorithm], Buffer.from(text.slice(0, end)), options, signature);
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
