import { EmbeddedJWK, errors, importJWK, type JWK, jwtVerify } from "jose";
import type { SessionRow } from "../rows/session-store.ts";
import { isTokenId, tokenId } from "./refresh-token.ts";

/**
 * W3C Device Bound Session Credentials, draft of 2026-02-17, "DBSC Proof JWT Syntax". Every TPM 2.0 that browsers use has
 * `ES256`, the one algorithm that is offered.
 */
const FORM = { algorithms: ["ES256"], typ: "dbsc+jwt" };
const MAX_PROOF_CHARACTERS = 4_096;
/** A browser registers at once, and answers a challenge at once. */
const CHALLENGE_LIFE_S = 300;
/**
 * Chromium signs six times in nine minutes at most: with a shorter life, somebody who opens many tabs would be logged out.
 * It is also how long a stolen cookie is good for.
 */
export const DEVICE_COOKIE_LIFE_S = 120;

type Secrets = Pick<SessionRow, "id" | "tokenSecret" | "deviceProofs">;

/** Names the session and the number of the proof. No state is stored, and only one proof of a number counts. */
export function deviceChallenge({ id, tokenSecret, deviceProofs }: Secrets, now: Date): string {
  const endS = Math.floor(now.getTime() / 1_000) + CHALLENGE_LIFE_S;
  return `${id}.${endS}.${tokenId(tokenSecret, challengePurpose(deviceProofs, endS))}`;
}

/** Whether it is of the session's next proof, and has not expired. */
export function isDeviceChallenge(
  { id, tokenSecret, deviceProofs }: Secrets,
  challenge: string,
  now: Date,
): boolean {
  const [sessionId, end = "", mac = ""] = challenge.split(".");
  const endS = Number(end);
  return (
    sessionId === id &&
    endS * 1_000 > now.getTime() &&
    isTokenId(mac, tokenSecret, challengePurpose(deviceProofs, endS))
  );
}

export function deviceCookie({ tokenSecret }: Pick<SessionRow, "tokenSecret">, now: Date): string {
  const endS = Math.floor(now.getTime() / 1_000) + DEVICE_COOKIE_LIFE_S;
  return `${endS}.${tokenId(tokenSecret, cookiePurpose(endS))}`;
}

export function isDeviceCookie(
  { tokenSecret }: Pick<SessionRow, "tokenSecret">,
  cookie: string,
  now: Date,
): boolean {
  const [end = "", mac = ""] = cookie.split(".");
  const endS = Number(end);
  return endS * 1_000 > now.getTime() && isTokenId(mac, tokenSecret, cookiePurpose(endS));
}

function challengePurpose(deviceProofs: number, endS: number): string {
  return `device challenge ${deviceProofs} ${endS}`;
}

function cookiePurpose(endS: number): string {
  return `device cookie ${endS}`;
}

/**
 * @param known the key of the session. Undefined: the proof brings it, as at the registration.
 * @returns the signed challenge; undefined if the key has not signed it.
 */
export async function checkDeviceProof(
  proof: string,
  known?: JWK,
): Promise<{ challenge: string; key: JWK } | undefined> {
  if (proof.length > MAX_PROOF_CHARACTERS) return undefined;
  try {
    const ownKey = known === undefined ? EmbeddedJWK : await importJWK(known, "ES256");
    const { payload, protectedHeader } = await jwtVerify(proof, ownKey, FORM);
    // Whatever its signer has written.
    const challenge: unknown = payload.jti;
    if (typeof challenge !== "string") return undefined;
    const { kty = "", crv = "", x = "", y = "" } = protectedHeader.jwk ?? {};
    return { challenge, key: known ?? ({ kty, crv, x, y } as JWK) };
  } catch (error) {
    if (error instanceof errors.JOSEError || error instanceof TypeError || error instanceof DOMException)
      return undefined;
    throw error;
  }
}
