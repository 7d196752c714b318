import { createHash, generateKeyPairSync } from "node:crypto";
import {
  decodeJwt,
  decodeProtectedHeader,
  type JWK,
  type JWTPayload,
  jwtVerify,
  type ProtectedHeaderParameters,
} from "jose";
import { validate as isUuid } from "uuid";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { algorithmsOf, CLIENT_ALGORITHMS, importClientKey } from "./client-key.ts";
import { insertAssertion, type LiveCredential, selectLiveCredentials } from "./credential-store.ts";

export interface VerifyAssertionDeps {
  sql: Sql;
  /** `aud` of assertions: the issuer of our tokens. */
  tokenIssuer: string;
  now: () => Date;
}

const MAX_ASSERTION_CHARACTERS = 4_096;
const MAX_LIFE_S = 300;
/** As of a DPoP proof: the clients' machines are not ours. */
const CLOCK_SKEW_S = 30;
const MAX_KEYS = 2;
const NOBODY = "00000000-0000-0000-0000-000000000000";

/** Who an assertion says that it is of; nothing is proven. */
export interface ClaimedAssertion {
  text: string;
  clientId: string;
  algorithm: string;
  keyId: string | undefined;
}

/**
 * Nothing is proven yet, so the refusal may say which claim no key can make valid.
 * @throws {DomainError} `invalid_client`.
 */
export function readAssertion(
  text: string,
  { tokenIssuer, now }: Pick<VerifyAssertionDeps, "tokenIssuer" | "now">,
): ClaimedAssertion {
  const { header, payload } = decoded(text);
  const { alg = "", kid } = header;
  const { iss, sub } = payload;
  const problem = CLIENT_ALGORITHMS.includes(alg)
    ? problemOf(payload, now().getTime() / 1_000, tokenIssuer)
    : `alg must be one of ${CLIENT_ALGORITHMS.join(", ")}`;
  if (problem !== undefined) throw new DomainError("invalid_client", `The assertion is refused: ${problem}.`);
  if (typeof sub !== "string" || sub !== iss || (kid !== undefined && typeof kid !== "string")) {
    throw new DomainError("invalid_client");
  }
  return { text, clientId: sub, algorithm: alg, keyId: kid };
}

function decoded(text: string): { header: ProtectedHeaderParameters; payload: JWTPayload } {
  if (text.length > MAX_ASSERTION_CHARACTERS) throw new DomainError("invalid_client");
  try {
    return { header: decodeProtectedHeader(text), payload: decodeJwt(text) };
  } catch (error) {
    throw new DomainError("invalid_client", undefined, { cause: error });
  }
}

function problemOf({ aud, exp, iat, jti }: JWTPayload, nowS: number, issuer: string): string | undefined {
  const audience = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud;
  if (audience !== issuer) return `aud must be ${issuer} alone`;
  if (typeof exp !== "number" || exp > nowS + MAX_LIFE_S + CLOCK_SKEW_S) {
    return `exp must be at most ${MAX_LIFE_S} s away`;
  }
  if (iat !== undefined && !(iat <= nowS + CLOCK_SKEW_S)) return "iat is in the future";
  if (typeof jti !== "string" || jti === "" || jti.length > 255)
    return "jti must be text of 1 to 255 characters";
  return undefined;
}

/**
 * `private_key_jwt` (RFC 7523 §3): `iss` and `sub` the client, `aud` only the issuer, `exp` at most 5 minutes away, `jti`
 * used once across all replicas. An unknown client costs as many signature checks as a known one.
 */
export async function verifyAssertion(
  deps: VerifyAssertionDeps,
  claimed: ClaimedAssertion,
): Promise<LiveCredential | undefined> {
  const { clientId, algorithm, keyId } = claimed;
  const owned = await selectLiveCredentials(deps.sql, isUuid(clientId) ? clientId : NOBODY, "public_key");
  const fitting = owned.filter(
    ({ publicJwk, keyId: own }) =>
      publicJwk !== null &&
      algorithmsOf(publicJwk).includes(algorithm) &&
      (keyId === undefined || own === keyId),
  );
  const checks = keyId === undefined ? MAX_KEYS : 1;
  let proven: { credential: LiveCredential; payload: JWTPayload } | undefined;
  for (let index = 0; index < checks; index += 1) {
    const credential = fitting[index];
    const payload = await payloadBy(credential?.publicJwk ?? decoyOf(algorithm), claimed, deps);
    if (payload !== undefined && credential !== undefined) proven ??= { credential, payload };
  }
  if (proven === undefined) return undefined;
  const { jti, exp } = proven.payload;
  const jtiHash = createHash("sha256").update(`${jti}`).digest();
  const expiresAt = new Date(((exp ?? 0) + CLOCK_SKEW_S) * 1_000);
  const isFirst = await insertAssertion(deps.sql, {
    clientId: proven.credential.clientId,
    jtiHash,
    expiresAt,
  });
  return isFirst ? proven.credential : undefined;
}

/** Undefined if the signature or a claim is wrong. */
async function payloadBy(
  jwk: JWK,
  { text, clientId, algorithm }: ClaimedAssertion,
  { tokenIssuer, now }: VerifyAssertionDeps,
): Promise<JWTPayload | undefined> {
  try {
    const { payload } = await jwtVerify(text, await importClientKey(jwk, algorithm), {
      algorithms: [algorithm],
      issuer: clientId,
      subject: clientId,
      audience: tokenIssuer,
      currentDate: now(),
      clockTolerance: CLOCK_SKEW_S,
      requiredClaims: ["exp", "jti"],
    });
    return payload;
  } catch {
    return undefined;
  }
}

/** Public keys whose private halves nobody has. */
const decoys = {
  EdDSA: () => generateKeyPairSync("ed25519"),
  ES256: () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  RSA: () => generateKeyPairSync("rsa", { modulusLength: 2_048 }),
};
const decoyKeys = Object.fromEntries(
  Object.entries(decoys).map(([type, make]) => [type, make().publicKey.export({ format: "jwk" }) as JWK]),
);

function decoyOf(algorithm: string): JWK {
  const type = algorithm === "ES256" ? "ES256" : algorithm.startsWith("Ed") ? "EdDSA" : "RSA";
  return decoyKeys[type] as JWK;
}
