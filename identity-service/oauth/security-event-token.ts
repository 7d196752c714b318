import { decodeJwt, decodeProtectedHeader } from "jose";
import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";

/** RFC 8935 §2.4. */
type Refusal =
  | "invalid_request"
  | "invalid_key"
  | "invalid_issuer"
  | "invalid_audience"
  | "authentication_failed";

/** Transmitters repeat what was not taken for days, not for weeks. */
export const MAX_AGE_S = 7 * 86_400;
/** As of a client's assertion: the transmitter's machine is not ours. */
export const CLOCK_SKEW_S = 30;
const MAX_CHARACTERS = 16_384;
const TYPE = /^(?:application\/)?secevent\+jwt$/i;

/** What ends sessions: CAEP 1.0 §3.1, RISC 1.0 §2.3, and its deprecated sessions-revoked, which Google sends. Other types have no effect. */
const ENDING = {
  "https://schemas.openid.net/secevent/caep/event-type/session-revoked": "session_revoked",
  "https://schemas.openid.net/secevent/risc/event-type/account-disabled": "account_disabled",
  "https://schemas.openid.net/secevent/risc/event-type/sessions-revoked": "sessions_revoked",
} as const;

export interface SecurityEvent {
  id: string;
  issuedAtS: number;
  /** Undefined: a type without effect. */
  ends: { kind: (typeof ENDING)[keyof typeof ENDING]; subject: Person } | undefined;
}

type Person = z.output<typeof person>;

const person = z.object({ iss: z.string(), sub: z.string().min(1).max(255) });
const byIssuer = person.extend({ format: z.literal("iss_sub") });
/** RFC 9493 §3.2.4, SSF 1.0 §3.3, and as the drafts had it. An address identifies no account of an issuer. */
const subject = z.union([
  byIssuer,
  z.object({ format: z.literal("complex"), user: byIssuer }).transform(({ user }) => user),
  person.extend({ subject_type: z.enum(["iss-sub", "iss_sub"]) }),
]);

/** RFC 8417 §2.2. SSF 1.0 §4.1 forbids `sub` and `exp`, so that an ID token is no event. */
const claimsSchema = z.object({
  iss: z.string(),
  aud: z.union([z.string(), z.array(z.string())]),
  iat: z.int(),
  jti: z.string().min(1).max(255),
  sub: z.undefined().optional(),
  exp: z.undefined().optional(),
  sub_id: z.unknown().optional(),
  events: z
    .record(z.string(), z.record(z.string(), z.unknown()))
    .refine((events) => Object.keys(events).length > 0, "must have a member"),
});

/** The one field's code is that of RFC 8935. */
export function refusedEvent(code: Refusal, message: string, cause?: unknown): DomainError {
  return new DomainError("validation_failed", undefined, {
    fields: [{ field: "event", code, message }],
    cause,
  });
}

/**
 * Nothing is proven yet: what no key can make valid costs no check of a signature. @throws {DomainError} as `refusedEvent`.
 */
export function readSecurityEvent(
  text: string,
  expected: { issuer: string; audience: string; subjectIssuers: readonly string[] },
  nowS: number,
): SecurityEvent {
  const claims = claimsOf(text);
  const { iss, aud, iat, jti, events } = claims;
  if (iss !== expected.issuer) throw refusedEvent("invalid_issuer", "iss is not the configured issuer");
  if (![aud].flat().includes(expected.audience))
    throw refusedEvent("invalid_audience", "aud does not contain the configured audience");
  if (iat > nowS + CLOCK_SKEW_S) throw refusedEvent("invalid_request", "iat is in the future");
  if (iat < nowS - MAX_AGE_S) throw refusedEvent("invalid_request", "iat is more than 7 days ago");
  // Several types name the same event (RFC 8417 §2.2).
  const type = (Object.keys(ENDING) as (keyof typeof ENDING)[]).find((name) => Object.hasOwn(events, name));
  if (type === undefined) return { id: jti, issuedAtS: iat, ends: undefined };
  const { data: who } = subject.safeParse(claims.sub_id ?? events[type]?.subject);
  if (who === undefined) throw refusedEvent("invalid_request", "the subject must name a user by iss and sub");
  if (!expected.subjectIssuers.includes(who.iss))
    throw refusedEvent("invalid_request", "the subject is of another issuer");
  return { id: jti, issuedAtS: iat, ends: { kind: ENDING[type], subject: who } };
}

function claimsOf(text: string): z.output<typeof claimsSchema> {
  if (text.length > MAX_CHARACTERS) throw refusedEvent("invalid_request", "is too long");
  const { typ, payload } = decoded(text);
  if (typeof typ !== "string" || !TYPE.test(typ))
    throw refusedEvent("invalid_request", "typ must be secevent+jwt");
  const { data: claims, error } = claimsSchema.safeParse(payload);
  if (claims === undefined) {
    const [issue] = error.issues;
    throw refusedEvent("invalid_request", `${String(issue?.path[0] ?? "the payload")} is invalid`);
  }
  return claims;
}

function decoded(text: string): { typ: unknown; payload: unknown } {
  try {
    return { typ: decodeProtectedHeader(text).typ, payload: decodeJwt(text) };
  } catch (error) {
    throw refusedEvent("invalid_request", "is not a JWT", error);
  }
}
