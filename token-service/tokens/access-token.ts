import { z } from "zod";
import { ROLE_NAME } from "#kit/values/access-names.ts";
import { ASSURANCE_LEVELS, acrOf, CLOCK_SKEW_S } from "#token-client/assurance.ts";
import { type CompactJws, isKeyId } from "#token-client/compact-jws.ts";
import { cnfClaim } from "../rows/confirmation.ts";

const uuid = z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
const seconds = z.int().min(0);

const commonClaims = {
  iss: z.string(),
  aud: z.string(),
  sub: uuid,
  sid: uuid,
  iat: seconds,
  exp: seconds,
  nbf: seconds.optional(),
  cnf: cnfClaim.optional(),
  /** Of a token for one upstream: the `jti` of the token that it was exchanged for, or the id of an API key. */
  origin_jti: z.string().max(64).optional(),
  /** The `kid` of that token, whose key's ban ends this one too. */
  origin_kid: z.string().refine(isKeyId).optional(),
};

/** RFC 9068 §2.2: users' tokens are for the gateway, which is no client of the access file. No client's id, a UUID, is the same. */
export const GATEWAY_CLIENT_ID = "gatehouse";

/** The greatest `integer` of PostgreSQL. A greater one, in a token made with a stolen key, would stop the marks of all others. */
const MAX_GENERATION = 2_147_483_647;

/** RFC 9068 §2.2. Unknown claims pass, for newer versions. */
const userClaims = z.object({
  ...commonClaims,
  client_id: z.literal(GATEWAY_CLIENT_ID),
  /** `<session generation>.<unguessable value>`. */
  jti: z
    .string()
    .regex(/^[1-9]\d{0,9}\.[A-Za-z0-9_-]{22}$/)
    .refine((jti) => generationOf({ jti }) <= MAX_GENERATION),
  role: z.string().regex(ROLE_NAME),
  amr: z.array(z.string().min(1).max(32)).min(1).max(8),
  acr: z.enum(ASSURANCE_LEVELS.map(acrOf)),
  auth_time: seconds,
});

/** A client has no role, and its `sid` names the credential that proved it. */
const clientClaims = z.object({
  ...commonClaims,
  client_id: uuid,
  jti: uuid,
  scope: z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/),
  role: z.undefined().optional(),
});

export type UserClaims = z.output<typeof userClaims>;
export type ClientClaims = z.output<typeof clientClaims>;
export type AccessClaims = UserClaims | ClientClaims;

export function isOfClient(claims: AccessClaims): claims is ClientClaims {
  return claims.client_id !== GATEWAY_CLIENT_ID;
}

export interface AccessTokenRules {
  issuer: string;
  audience: string;
  accessTtlS: number;
}

export type ClaimsFailure = "claims" | "iss" | "aud" | "lifetime" | "iat" | "nbf" | "exp";

/** Does not check the signature. @param nowS seconds since the epoch. */
export function checkAccessClaims(
  payload: CompactJws["payload"],
  rules: AccessTokenRules,
  nowS: number,
): AccessClaims | ClaimsFailure {
  const schema = payload.client_id === GATEWAY_CLIENT_ID ? userClaims : clientClaims;
  const { data: claims } = schema.safeParse(payload);
  if (claims === undefined) return "claims";
  if (isOfClient(claims) && claims.sub !== claims.client_id) return "claims";
  if (claims.iss !== rules.issuer) return "iss";
  if (claims.aud !== rules.audience) return "aud";
  if (claims.exp <= claims.iat || claims.exp - claims.iat > rules.accessTtlS) return "lifetime";
  if (claims.iat > nowS + CLOCK_SKEW_S) return "iat";
  if (claims.nbf !== undefined && claims.nbf > nowS + CLOCK_SKEW_S) return "nbf";
  if (nowS >= claims.exp + CLOCK_SKEW_S) return "exp";
  return claims;
}

export function generationOf(claims: { jti: string }): number {
  return Number(claims.jti.slice(0, claims.jti.indexOf(".")));
}
