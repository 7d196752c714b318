import { hash } from "node:crypto";
import { isSignedBy } from "./cose-key.ts";
import type { PasskeyEvidence } from "./evidence-file.ts";
import { BadEvidenceError, type FindingCode } from "./finding.ts";

const HASH_BYTES = 32;
const MIN_AUTHENTICATOR_DATA_BYTES = 37;
const USER_PRESENT = 0x01;
const USER_VERIFIED = 0x04;

export interface SignedBy {
  passkeyId: string;
  /** base64url. */
  credentialId: string;
  origin: string;
  rpId: string;
}

/** Stands in the reason of `user.approval_given`. Lower-case hexadecimal. */
export function evidenceHash(evidence: PasskeyEvidence): string {
  const members = Object.entries(evidence).sort(([a], [b]) => (a < b ? -1 : 1));
  return hash("sha256", JSON.stringify(Object.fromEntries(members)), "hex");
}

/**
 * @param origins Empty: https on the passkey's domain or below it, and http on localhost.
 * @throws {BadEvidenceError} @see WebAuthn Level 3 §7.2.
 */
export function checkAssertion(
  evidence: PasskeyEvidence,
  digest: Buffer,
  origins: readonly string[],
): SignedBy {
  const { passkeyId, rpId } = evidence;
  const nonce = bytesOf(evidence.nonce, "challenge", "nonce");
  const credentialId = bytesOf(evidence.credentialId, "form", "credential id");
  const publicKey = bytesOf(evidence.publicKey, "public_key", "public key");
  const authenticatorData = bytesOf(evidence.authenticatorData, "form", "authenticator data");
  const clientData = bytesOf(evidence.clientData, "client_data", "client data");
  const signature = bytesOf(evidence.signature, "signature", "signature");
  const challenge = hash("sha256", Buffer.concat([nonce, digest]), "base64url");
  const origin = checkClientData(clientData, { challenge, rpId, origins });
  checkAuthenticatorData(authenticatorData, rpId);
  const signed = Buffer.concat([authenticatorData, hash("sha256", clientData, "buffer")]);
  if (!isSignedBy(publicKey, signed, signature)) {
    throw new BadEvidenceError("signature", "the passkey has not signed this approval");
  }
  return { passkeyId, credentialId: credentialId.toString("base64url"), origin, rpId };
}

function checkClientData(
  bytes: Buffer,
  { challenge, rpId, origins }: { challenge: string; rpId: string; origins: readonly string[] },
): string {
  const data = parse(bytes);
  if (data.type !== "webauthn.get")
    throw new BadEvidenceError("client_data", "the client data are of no assertion");
  if (data.challenge !== challenge) {
    throw new BadEvidenceError(
      "challenge",
      "the passkey has signed another challenge than that of this transaction",
    );
  }
  const { origin } = data;
  if (typeof origin !== "string" || data.crossOrigin === true || !isExpected(origin, rpId, origins)) {
    throw new BadEvidenceError("origin", `the passkey was used at ${JSON.stringify(origin)}`);
  }
  return origin;
}

function parse(bytes: Buffer): Record<string, unknown> {
  try {
    const data: unknown = JSON.parse(
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    );
    if (typeof data === "object" && data !== null) return data as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw new BadEvidenceError("client_data", "the client data are not a JSON object");
}

function isExpected(origin: string, rpId: string, origins: readonly string[]): boolean {
  if (origins.length > 0) return origins.includes(origin);
  if (!URL.canParse(origin) || new URL(origin).origin !== origin) return false;
  const { protocol, hostname } = new URL(origin);
  const isSecure = protocol === "https:" || (protocol === "http:" && hostname === "localhost");
  return isSecure && (hostname === rpId || hostname.endsWith(`.${rpId}`));
}

function checkAuthenticatorData(data: Buffer, rpId: string): void {
  if (data.length < MIN_AUTHENTICATOR_DATA_BYTES) {
    throw new BadEvidenceError("form", "the authenticator data are too short");
  }
  if (!data.subarray(0, HASH_BYTES).equals(hash("sha256", rpId, "buffer"))) {
    throw new BadEvidenceError(
      "rp_id",
      `the passkey was used for another domain than ${JSON.stringify(rpId)}`,
    );
  }
  const flags = data[HASH_BYTES] ?? 0;
  if ((flags & USER_PRESENT) === 0 || (flags & USER_VERIFIED) === 0) {
    throw new BadEvidenceError("user_verification", "the authenticator has not verified its user");
  }
}

function bytesOf(text: string, code: FindingCode, name: string): Buffer {
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text || bytes.length === 0) {
    throw new BadEvidenceError(code, `the ${name} is not base64`);
  }
  return bytes;
}
