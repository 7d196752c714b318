import type { Body } from "#clients/api/endpoint.ts";
import type { PasskeyCreationOptions } from "#clients/api/generated/gatehouse.ts";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";

type PasskeyAnswer = Body<"POST /auth/passkeys/login">["response"];
type NewPasskey = Body<"POST /auth/passkeys">["response"];

/** Whether this browser can use passkeys at this address: never at an IP address. @see WebAuthn Level 3 §5.1.8. */
export const canUsePasskeys = (): boolean =>
  "PublicKeyCredential" in window &&
  typeof PublicKeyCredential.parseRequestOptionsFromJSON === "function" &&
  !/^[\d.]+$|^\[/.test(location.hostname);

/** Whether browsers here offer passkeys in the field of the e-mail address. */
async function canOfferPasskeys(): Promise<boolean> {
  return canUsePasskeys() && ((await PublicKeyCredential.isConditionalMediationAvailable?.()) ?? false);
}

/**
 * The answer of an authenticator to a challenge.
 * @param options as the gateway has sent them.
 * @param offer ends a request that waits in the field of the address, instead of a dialog of the browser.
 * @throws {DOMException} as `navigator.credentials.get`.
 */
export async function askPasskey(options: object, offer?: AbortSignal): Promise<PasskeyAnswer> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
    options as PublicKeyCredentialRequestOptionsJSON,
  );
  const waiting = offer && ({ mediation: "conditional", signal: offer } as const);
  return jsonOf<PasskeyAnswer>(await navigator.credentials.get({ publicKey, ...waiting }));
}

/** @throws {DOMException} as `navigator.credentials.create`. */
export async function makePasskey(options: PasskeyCreationOptions): Promise<NewPasskey> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    options as PublicKeyCredentialCreationOptionsJSON,
  );
  return jsonOf<NewPasskey>(await navigator.credentials.create({ publicKey }));
}

function jsonOf<T>(credential: Credential | null): T {
  if (credential instanceof PublicKeyCredential) return credential.toJSON() as T;
  throw new DOMException("no passkey", "NotAllowedError");
}

/** A name for a new passkey that its owner may recognise. */
export function thisDevice(): string {
  const { platform } = (navigator as { userAgentData?: { platform?: string } }).userAgentData ?? {};
  return platform || "Passkey";
}

/** A challenge is good for five minutes. */
const OFFER_MS = 240_000;

interface Offered {
  /** A login that waits for the person, until the signal ends it. */
  logIn: (offer: AbortSignal) => Promise<void>;
  /** For tests. */
  canOffer?: () => Promise<boolean>;
  /** Milliseconds, for tests. */
  offerMs?: number;
}

/**
 * Offers passkeys until one has logged in, with a new challenge before the former one expires, and after one that was refused.
 * A browser asks for one passkey at a time, so each offer begins when the one before has ended.
 *
 * @returns a function that ends the offer. Its promise resolves when the browser asks for nothing more.
 */
export function offerPasskeys({
  logIn,
  canOffer = canOfferPasskeys,
  offerMs = OFFER_MS,
}: Offered): () => Promise<void> {
  const over = new AbortController();
  const offer = async () => {
    if (!(await canOffer())) return;
    while (!over.signal.aborted) {
      const expiry = AbortSignal.timeout(offerMs);
      try {
        return await logIn(AbortSignal.any([over.signal, expiry]));
      } catch (error) {
        const isRefused = error instanceof GatehouseError && error.code === "passkey_invalid";
        // The form stands beside it.
        if (!isRefused && !expiry.aborted) return;
      }
    }
  };
  const ended = offer().catch(() => undefined);
  return () => {
    over.abort();
    return ended;
  };
}
