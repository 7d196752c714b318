import type { AttestationStatement } from "@simplewebauthn/server/helpers";
import type { PasskeyParty } from "./passkey-config.ts";
import type { NewPasskey } from "./passkey-store.ts";

/** Binary values in base64url. */
export interface Attestation {
  credentialId: string;
  clientDataJson: string;
  attestationObject: string;
  transports: readonly string[];
}

export type AttestedCredential = Pick<
  NewPasskey,
  "credentialId" | "publicKey" | "signCount" | "transports" | "isBackupEligible" | "isBackedUp"
>;

/** EdDSA, ES256 and RS256 (IANA COSE Algorithms). */
export const PASSKEY_ALGORITHMS = [-8, -7, -257];

/** A credential id of 1,023 bytes and an RSA key of 4,096 bits take about 2,200. */
const MAX_ATTESTATION_CHARACTERS = 4_096;
const MIN_CREDENTIAL_ID_BYTES = 16;
const MAX_PUBLIC_KEY_BYTES = 1_024;
/** WebAuthn Level 3 §5.8.4 and what may follow. Others are hints that we drop. */
const TRANSPORT = /^[a-z-]{1,16}$/;
const MAX_TRANSPORTS = 8;

/** WebAuthn Level 3 §7.1. Undefined for any refusal. */
export async function verifyAttestation(
  party: PasskeyParty,
  attestation: Attestation,
  expectedChallenge: string,
): Promise<AttestedCredential | undefined> {
  const { credentialId: id, clientDataJson: clientDataJSON, attestationObject } = attestation;
  if (attestationObject.length > MAX_ATTESTATION_CHARACTERS) return undefined;
  const { verifyRegistrationResponse } = await import("@simplewebauthn/server");
  const { cose, decodeAttestationObject, decodeCredentialPublicKey } = await import(
    "@simplewebauthn/server/helpers"
  );
  try {
    const attested = decodeAttestationObject(bytesOf(attestationObject));
    const statement = attested.get("attStmt");
    const isSelfAttested = attested.get("fmt") === "packed" && isSelfAttestation(statement);
    if (attested.get("fmt") !== "none" && !isSelfAttested) return undefined;
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: {
        id,
        rawId: id,
        type: "public-key",
        clientExtensionResults: {},
        response: { clientDataJSON, attestationObject },
      },
      expectedChallenge,
      expectedOrigin: [...party.origins],
      expectedRPID: party.id,
      requireUserVerification: true,
      supportedAlgorithmIDs: PASSKEY_ALGORITHMS,
    });
    if (!verified) return undefined;
    const { credential, credentialDeviceType, credentialBackedUp } = registrationInfo;
    const credentialId = Buffer.from(credential.id, "base64url");
    const publicKey = Buffer.from(credential.publicKey);
    // The library compares it with nothing.
    if (credential.id !== id || credentialId.length < MIN_CREDENTIAL_ID_BYTES) return undefined;
    if (publicKey.length > MAX_PUBLIC_KEY_BYTES) return undefined;
    // WebAuthn Level 3 §8.2: the library verifies by whichever algorithm the statement names.
    if (
      isSelfAttested &&
      statement.get("alg") !== decodeCredentialPublicKey(credential.publicKey).get(cose.COSEKEYS.alg)
    )
      return undefined;
    return {
      credentialId,
      publicKey,
      signCount: credential.counter,
      transports: attestation.transports.filter((name) => TRANSPORT.test(name)).slice(0, MAX_TRANSPORTS),
      isBackupEligible: credentialDeviceType === "multiDevice",
      isBackedUp: credentialBackedUp,
    };
  } catch {
    // The library throws plain errors for what it refuses.
    return undefined;
  }
}

/**
 * WebAuthn Level 3 §5.1.3: browsers that were asked for no attestation pass this one on unchanged. It is signed by the
 * credential itself. Certificates (`x5c`) are not parsed, because nothing would depend on them.
 */
function isSelfAttestation(statement: AttestationStatement): boolean {
  // `alg` and `sig`, which the library demands.
  return statement.size === 2;
}

function bytesOf(base64url: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(base64url, "base64url"));
}
