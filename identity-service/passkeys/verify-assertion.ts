import type { PasskeyParty } from "./passkey-config.ts";
import type { Passkey } from "./passkey-store.ts";

/** Binary values in base64url. */
export interface Assertion {
  credentialId: string;
  clientDataJson: string;
  authenticatorData: string;
  signature: string;
  /** Empty if the authenticator gave none. */
  userHandle: string;
}

interface VerifiedAssertion {
  signCount: number;
  isBackedUp: boolean;
}

/** WebAuthn Level 3 §7.2, without the counter. Undefined for any refusal. */
export async function verifyAssertion(
  party: PasskeyParty,
  assertion: Assertion,
  passkey: Passkey,
  expected: { challenge: string; isUserHandleRequired: boolean },
): Promise<VerifiedAssertion | undefined> {
  const { credentialId: id, clientDataJson: clientDataJSON, userHandle } = assertion;
  const isHandleAbsent = userHandle === "" && !expected.isUserHandleRequired;
  if (!isHandleAbsent && userHandle !== userHandleOf(passkey.userId).toString("base64url")) return undefined;
  const { verifyAuthenticationResponse } = await import("@simplewebauthn/server");
  try {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: {
        id,
        rawId: id,
        type: "public-key",
        clientExtensionResults: {},
        response: {
          clientDataJSON,
          authenticatorData: assertion.authenticatorData,
          signature: assertion.signature,
        },
      },
      expectedChallenge: expected.challenge,
      expectedOrigin: [...party.origins],
      expectedRPID: party.id,
      // Zero, because the library compares before it verifies: anybody could feign a copied authenticator.
      credential: { id, publicKey: new Uint8Array(passkey.publicKey), counter: 0 },
      requireUserVerification: true,
    });
    if (!verified) return undefined;
    const { newCounter, credentialDeviceType, credentialBackedUp } = authenticationInfo;
    // Step 19: it never changes.
    if ((credentialDeviceType === "multiDevice") !== passkey.isBackupEligible) return undefined;
    return { signCount: newCounter, isBackedUp: credentialBackedUp };
  } catch {
    // The library throws plain errors for what it refuses.
    return undefined;
  }
}

/** The id's 16 bytes, which say nothing about the person (WebAuthn Level 3 §14.6.1). */
export function userHandleOf(userId: string): Buffer {
  return Buffer.from(userId.replaceAll("-", ""), "hex");
}
