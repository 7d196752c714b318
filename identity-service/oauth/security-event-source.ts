import { createHash, timingSafeEqual } from "node:crypto";
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTVerifyOptions,
  jwtVerify,
  type RemoteJWKSet,
} from "jose";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { OutboundHttp } from "#outbound-http/outbound-http.ts";
import type { SecurityEventSettings } from "./oauth-provider-settings.ts";
import { CLOCK_SKEW_S, readSecurityEvent, refusedEvent, type SecurityEvent } from "./security-event-token.ts";

/** Asymmetric ones alone: an HMAC by a public key is nobody's. */
const ALGORITHMS = ["RS", "PS", "ES"].flatMap((family) => [`${family}256`, `${family}384`, `${family}512`]);
/** Left of the call for what follows. */
const RESERVE_MS = 300;
const RETRY_AFTER_MS = 5_000;
/** After each reading of the keys an unknown key waits so long for the next one. */
const COOLDOWN_MS = 30_000;
/** Tried for one event that does not name its key. */
const MAX_KEYS = 10;

/** The transmitter of one provider's security events (OpenID Shared Signals Framework 1.0). */
export interface SecurityEventSource {
  /** Of the events. */
  readonly issuer: string;
  /** Cheap, and proves nothing but the bearer token. @throws {DomainError} as `refusedEvent`. */
  read(text: string, bearerToken: string, now: Date): SecurityEvent;
  /** @throws {DomainError} as `refusedEvent`; `service_unavailable` if the keys are not known in time. */
  verify(text: string, deadlineMs: number): Promise<void>;
}

interface Surroundings {
  /** Of the ID tokens, and so of linked accounts. */
  issuer: string;
  http: Pick<OutboundHttp, "fetch">;
  /** Milliseconds since the epoch. */
  nowMs: () => number;
  /** Of the ID tokens. */
  jwksOf: (deadlineMs: number) => Promise<string | undefined>;
}

export function createSecurityEventSource(
  settings: SecurityEventSettings,
  { issuer, http, nowMs, jwksOf }: Surroundings,
): SecurityEventSource {
  let keys: { url: string; set: RemoteJWKSet } | undefined;
  const keysAt = (url: string): RemoteJWKSet => {
    // One reading for all who ask, also after the end of the call that caused it.
    if (keys?.url !== url) keys = { url, set: remoteKeys(url, http) };
    return keys.set;
  };
  const expected = {
    issuer: settings.issuer,
    audience: settings.audience,
    subjectIssuers: [issuer, settings.issuer],
  };
  return {
    issuer: settings.issuer,
    read(text, bearerToken, now) {
      if (settings.token !== undefined && !isSame(settings.token.reveal(), bearerToken))
        throw refusedEvent("authentication_failed", "the bearer token is missing or wrong");
      return readSecurityEvent(text, expected, now.getTime() / 1_000);
    },
    async verify(text, deadlineMs) {
      const url = settings.jwks ?? (await jwksOf(deadlineMs - RESERVE_MS));
      if (url === undefined) throw new DomainError("service_unavailable");
      const set = keysAt(url);
      const mayLookAgain = !set.coolingDown;
      const checked = verifySignature(text, set, {
        algorithms: ALGORITHMS.concat("EdDSA", "Ed25519"),
        currentDate: new Date(nowMs()),
        clockTolerance: CLOCK_SKEW_S,
      });
      const leftMs = Math.max(0, deadlineMs - RESERVE_MS - nowMs());
      await withinDeadline(checked, leftMs).catch((error: unknown) => {
        throw failure(error, mayLookAgain);
      });
    },
  };
}

function remoteKeys(url: string, http: Pick<OutboundHttp, "fetch">): RemoteJWKSet {
  return createRemoteJWKSet(new URL(url), {
    cooldownDuration: COOLDOWN_MS,
    [customFetch]: (target, { headers, method, signal }) =>
      http.fetch(target, { method, headers: Object.fromEntries(headers), signal }),
  });
}

/** An event need not name its key, if its issuer has several of an algorithm. @throws as `jwtVerify`. */
async function verifySignature(text: string, set: RemoteJWKSet, options: JWTVerifyOptions): Promise<void> {
  try {
    await jwtVerify(text, set, options);
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    let tried = 0;
    for await (const key of error) {
      if (tried === MAX_KEYS) break;
      tried += 1;
      try {
        await jwtVerify(text, key, options);
        return;
      } catch (refused) {
        if (!(refused instanceof errors.JWSSignatureVerificationFailed)) throw refused;
      }
    }
    throw error;
  }
}

/** What is wrong with the event is final for its transmitter; it sends again after anything else. */
function failure(error: unknown, hasLooked: boolean): DomainError {
  if (error instanceof errors.JWKSNoMatchingKey) {
    // Strangers with made-up keys must not make us refuse one that has just been published.
    if (hasLooked) return refusedEvent("invalid_key", "no key of the issuer fits");
    return new DomainError("service_unavailable", undefined, { retryAfterMs: COOLDOWN_MS });
  }
  const isFinal = FINAL.some((kind) => error instanceof kind);
  if (isFinal) return refusedEvent("invalid_key", "the signature or its algorithm is not accepted");
  if (error instanceof DomainError) return error;
  return new DomainError("service_unavailable", undefined, { cause: error, retryAfterMs: RETRY_AFTER_MS });
}

const FINAL = [
  errors.JWSSignatureVerificationFailed,
  errors.JWSInvalid,
  errors.JWTInvalid,
  errors.JWTClaimValidationFailed,
  errors.JOSEAlgNotAllowed,
  errors.JOSENotSupported,
  errors.JWKSMultipleMatchingKeys,
];

function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => createHash("sha256").update(text).digest()) as [Buffer, Buffer];
  return timingSafeEqual(a, b);
}
