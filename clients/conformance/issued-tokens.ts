import { randomBytes, randomUUID } from "node:crypto";
import { type Principal, PrincipalKind } from "#proto/gatehouse/token/v1/principal.ts";
import type { VerifyTokenResponse } from "#proto/gatehouse/token/v1/token_service.ts";
import { CLOCK_SKEW_S } from "#token-client/assurance.ts";

export const ISSUER = "https://auth.example";
export const KEY_ID = "K".repeat(43);
export const OTHER_KEY_ID = "L".repeat(43);

export interface IssuedToken {
  text: string;
  audience: string;
  principal: Principal;
  /** By the monotonic clock: when token-service begins to refuse it. */
  endsAtMs: number;
  /** Laid over the answer of VerifyToken. */
  answer: Partial<VerifyTokenResponse>;
}

export interface TokenWishes {
  audience?: string;
  keyId?: string;
  /** Until token-service refuses it. */
  livesMs?: number;
  principal?: Partial<Principal>;
  answer?: Partial<VerifyTokenResponse>;
  isApiKey?: boolean;
}

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token of the right form, of a user unless `principal` says otherwise. Its signature is of no key. */
export function issueToken(wishes: TokenWishes, wallNowMs: number): IssuedToken {
  const { audience = ISSUER, keyId = KEY_ID, livesMs = 900_000, answer = {}, isApiKey = false } = wishes;
  const issuedAt = new Date(Math.floor(wallNowMs / 1_000) * 1_000);
  const expiresAt = new Date(wallNowMs + livesMs - CLOCK_SKEW_S * 1_000);
  const principal: Principal = {
    userId: randomUUID(),
    sessionId: randomUUID(),
    role: "USER",
    tokenId: randomUUID(),
    keyId: isApiKey ? "" : keyId,
    amr: ["pwd"],
    authTime: issuedAt,
    issuedAt,
    expiresAt,
    acr: "urn:gatehouse:acr:1",
    kind: PrincipalKind.USER,
    clientId: "",
    scopes: [],
    confirmation: undefined,
    audience,
    originTokenId: undefined,
    originKeyId: undefined,
    ...wishes.principal,
  };
  const text = isApiKey
    ? `gh_${randomBytes(16).toString("hex")}_${randomBytes(32).toString("base64url")}`
    : jwtOf(principal, audience, keyId);
  return { text, audience, principal, endsAtMs: performance.now() + livesMs, answer };
}

/** What a client's token has in place of a user's. */
export function clientPrincipal(scopes: string[]): Partial<Principal> {
  const clientId = randomUUID();
  return {
    kind: PrincipalKind.CLIENT,
    userId: clientId,
    clientId,
    scopes,
    role: "",
    acr: "",
    amr: [],
    authTime: undefined,
  };
}

/** The same claims under another signature. */
export function forge(text: string): string {
  return `${text.slice(0, text.lastIndexOf("."))}.${randomBytes(64).toString("base64url")}`;
}

/** Another header or other claims under the same signature. A member that is `undefined` is taken away. */
export function change(text: string, changes: { header?: object; claims?: object }): string {
  const [header = "", claims = "", signature] = text.split(".");
  const decode = (segment: string) => JSON.parse(Buffer.from(segment, "base64url").toString());
  const changed = [
    { ...decode(header), ...changes.header },
    { ...decode(claims), ...changes.claims },
  ].map(encode);
  return `${changed.join(".")}.${signature}`;
}

function jwtOf({ userId, sessionId, tokenId, role, expiresAt }: Principal, aud: string, kid: string) {
  const header = { alg: "EdDSA", typ: "at+jwt", kid };
  const exp = Math.floor((expiresAt?.getTime() ?? 0) / 1_000);
  const subject = { sub: userId, client_id: role === "" ? userId : "gatehouse" };
  const claims = { iss: ISSUER, aud, ...subject, sid: sessionId, jti: tokenId, role, exp };
  return `${encode(header)}.${encode(claims)}.${randomBytes(64).toString("base64url")}`;
}
