import { z } from "zod";
import type { ErrorCode } from "../../service-kit/errors.ts";

/** The document's chapters, in its order, and what each says first. */
export const TAGS = {
  Accounts: "Register, prove an address, change or delete an account.",
  Logins: "Log in, refresh, log out; the sessions of a user.",
  "Identity providers": "Log in at one; the links of an account to them.",
  "Second factor": "TOTP codes and recovery codes.",
  Administration: "Users, for the role ADMIN.",
  "Audit log": "For the roles ADMIN and AUDITOR.",
  Services: "For other services: keys, introspection.",
  "This document": "The API's description itself.",
} as const;

/** A successful answer. */
export interface Answer {
  description: string;
  /** Schemas by media type, as strict as what is sent. Absent: the answer has no body. */
  content?: Readonly<Record<string, z.ZodType>>;
  /** What it says in headers beside those of every answer, by name. */
  headers?: Readonly<Record<string, string>>;
}

/** What the OpenAPI document cannot read from a route's policy and its schemas. */
export interface RouteDocs {
  /** Unique; generated clients name their functions so. */
  operationId: string;
  tag: keyof typeof TAGS;
  summary: string;
  description?: string;
  /** By HTTP status. */
  answers: Readonly<Record<number, Answer>>;
  /** Failures beyond those that follow from the route's policy: see `openapi-failures.ts`. */
  codes?: readonly ErrorCode[];
  /** Media types of the request body; JSON unless it says otherwise. */
  bodyTypes?: readonly string[];
  /** What a browser has to bring in cookies, by name. */
  cookies?: Readonly<Record<string, string>>;
  /** Request headers that a client may send, by name. */
  headers?: Readonly<Record<string, string>>;
  /** A public route that takes an access token where one comes along. */
  takesSession?: boolean;
  /** Callers prove themselves as services, by HTTP Basic. */
  isForClients?: boolean;
}

export const JSON_TYPE = "application/json";
export const FORM_TYPE = "application/x-www-form-urlencoded";
export const HTML_TYPE = "text/html";

/** A success in our envelope. @param data what is in it. */
export function enveloped(data: z.ZodType): z.ZodType {
  return z.strictObject({
    success: z.literal(true),
    data,
    message: z.string().meta({ description: "For people; not part of the API.", examples: ["Done."] }),
  });
}

/** A success in JSON. @param data what is in the envelope. @param headers what the answer says in headers, by name. */
export function answer(
  description: string,
  data: z.ZodType = z.strictObject({}),
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return { description, content: { [JSON_TYPE]: enveloped(data) }, headers };
}

/** The answers of a route whose only success is 200 in JSON. */
export function answersWith(...success: Parameters<typeof answer>): RouteDocs["answers"] {
  return { 200: answer(...success) };
}

/** Of what a client may keep. */
export const CACHE_HEADERS = {
  ETag: "Its version; `If-None-Match` asks for another one.",
  "Cache-Control": "How long it may be kept.",
};
export const UNCHANGED: Answer = {
  description: "It is still what the client has.",
  headers: CACHE_HEADERS,
};
