import { type KeyObject, sign } from "node:crypto";
import { type Algorithm, DIGEST } from "../token-client/token-signature.ts";

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

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
