import { z } from "zod";
import type { ErrorCode } from "#kit/values/errors.ts";

export const TAGS = {
  Accounts: "Register, prove an address, change or delete an account.",
  Logins: "Log in, refresh, log out; the sessions of a user.",
  "Identity providers": "Log in at one; the links of an account to them.",
  Passkeys: "WebAuthn: log in without a password.",
  "Second factor": "TOTP codes and recovery codes.",
  Approvals: "The user's consent to one transaction.",
  Administration: "Users, for roles with the permissions named.",
  "Audit log": "For roles with `audit:read`, or `audit:read:user` for the entries of one user.",
  Clients: "Programs: their accounts, and tokens for them (OAuth 2.0).",
  Webhooks: "Events, sent to an address of one's own.",
  Services: "For other services: keys, introspection.",
  "This document": "The API's description itself.",
} as const;

export interface Answer {
  description: string;
  /** By media type, as strict as the response. */
  content?: Readonly<Record<string, z.ZodType>>;
  headers?: Readonly<Record<string, string>>;
}

export interface RouteDocs {
  /** Unique. Generated clients use it as function name. */
  operationId: string;
  tag: keyof typeof TAGS;
  summary: string;
  description?: string;
  answers: Readonly<Record<number, Answer>>;
  /** Beyond those of the policy, see `openapi-failures.ts`. */
  codes?: readonly ErrorCode[];
  /** Defaults to JSON. */
  bodyTypes?: readonly string[];
  cookies?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  /** A public route with an optional access token. */
  takesSession?: boolean;
  /** Of RFC 6749 §5.2, or of RFC 8935 §2.3 with 400, in place of ours. */
  failureForm?: "oauth" | "securityEvent";
  /** Callers are services, with HTTP Basic. */
  isForClients?: boolean;
}

export const JSON_TYPE = "application/json";
export const FORM_TYPE = "application/x-www-form-urlencoded";
export const SECURITY_EVENT_TYPE = "application/secevent+jwt";
export const HTML_TYPE = "text/html";

export const messageAnswer = z
  .string()
  .meta({ id: "Message", description: "For people; not part of the API.", examples: ["Done."] });

function enveloped(data: z.ZodType): z.ZodType {
  return z.strictObject({
    success: z.literal(true),
    data,
    message: messageAnswer,
  });
}

const doneAnswer = enveloped(z.strictObject({})).meta({ id: "Done", description: "Without data." });

/** @param data none if nothing is to say but that it is done. */
export function answer(
  description: string,
  data?: z.ZodType,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const body = data === undefined ? doneAnswer : enveloped(data);
  return { description, content: { [JSON_TYPE]: body }, headers };
}

export function answersWith(...success: Parameters<typeof answer>): RouteDocs["answers"] {
  return { 200: answer(...success) };
}

export const CACHE_HEADERS = {
  ETag: "Its version; `If-None-Match` asks for another one.",
  "Cache-Control": "How long it may be kept.",
};
export const UNCHANGED: Answer = {
  description: "It is still what the client has.",
  headers: CACHE_HEADERS,
};
