import { GatehouseError } from "#clients/browser/gateway-calls.ts";

/** A challenge is good for five minutes. */
const OFFER_MS = 240_000;

interface Offered {
  /** Whether browsers here offer passkeys in the field of the e-mail address. */
  canOffer: () => Promise<boolean>;
  /** A login that waits for the person, until the signal ends it. */
  logIn: (offer: AbortSignal) => Promise<void>;
  /** Milliseconds, for tests. */
  offerMs?: number;
}

/**
 * Offers passkeys until one has logged in, with a new challenge before the former one expires, and after one that was refused.
 * A browser asks for one passkey at a time, so each offer begins when the one before has ended.
 *
 * @returns a function that ends the offer. Its promise resolves when the browser asks for nothing more.
 */
export function offerPasskeys({ canOffer, logIn, offerMs = OFFER_MS }: Offered): () => Promise<void> {
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
