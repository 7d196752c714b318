import { z } from "zod";
import { DomainError, ERROR_CATALOGUE, type ErrorCode } from "#kit/values/errors.ts";
import { failure, PROBLEM_TYPE } from "../edge/answers/envelope.ts";
import { HTTP_BAD_REQUEST, HTTP_STATUS, INTERNAL_ONLY } from "../edge/answers/http-errors.ts";
import { oauthErrorOf, oauthFailure } from "../edge/answers/oauth-failure.ts";
import { REFUSALS } from "../edge/answers/security-event-failure.ts";
import { JSON_TYPE, messageAnswer as message } from "../routing/route-docs.ts";
import { isMutating } from "../routing/route-policy.ts";
import type { DocumentedRoute } from "./documented-route.ts";

/** Answered to any request, mostly before its route is known: not repeated in each operation. */
const BEFORE_ROUTE = [
  "request_timeout",
  "uri_too_long",
  "misdirected_request",
  "headers_too_large",
  "not_implemented",
  "http_version_not_supported",
] as const;
/** Possible for any operation. */
const ANY_OPERATION = [
  "bad_request",
  "validation_failed",
  "too_many_requests",
  "internal_error",
  "service_unavailable",
] as const;
const WITH_TOKEN = ["token_missing", "token_invalid", "token_expired", "role_not_defined"] as const;
const WITH_PROOF = ["token_proof_missing", "token_proof_invalid", "token_proof_needs_nonce"] as const;
const FOR_TOKENS = ["invalid_dpop_proof", "use_dpop_nonce"] as const;
const WITH_BODY = ["payload_too_large", "unsupported_media_type"] as const;

/** Ordered as in `docs/errors.md`. */
const CLIENT_CODES = (Object.keys(ERROR_CATALOGUE) as ErrorCode[]).filter((code) => !INTERNAL_ONLY.has(code));

/** By status. */
export const FAILURES_BEFORE_ROUTE: ReadonlyMap<number, ErrorCode[]> = Map.groupBy(
  BEFORE_ROUTE,
  (code) => HTTP_STATUS[code],
);

/** By status, beyond those of any request. */
export function failuresOf({ method, config }: DocumentedRoute): Map<number, ErrorCode[]> {
  const { auth, permissions, docs, isAudited, assurance, cookies, issuesTokens, orTokenInBody } = config;
  const isLimited = typeof auth === "object" || permissions !== undefined;
  const mayNeedStepUp = assurance !== undefined || isLimited;
  const possible = new Set<ErrorCode>([
    ...ANY_OPERATION,
    ...(auth === "public" ? [] : [...WITH_TOKEN, ...WITH_PROOF]),
    ...(docs.takesSession === true ? WITH_PROOF : []),
    ...(issuesTokens === true || orTokenInBody !== undefined ? FOR_TOKENS : []),
    ...(isLimited ? (["forbidden"] as const) : []),
    ...(mayNeedStepUp ? (["step_up_required", "user_required"] as const) : []),
    ...(isMutating(method) ? WITH_BODY : []),
    ...(config.limitClass === "login" ? (["busy"] as const) : []),
    ...((isAudited ?? isMutating(method)) ? (["audit_unavailable"] as const) : []),
    ...(cookies === "session" ? (["origin_not_allowed"] as const) : []),
    ...(docs.codes ?? []),
  ]);
  const codes = CLIENT_CODES.filter((code) => possible.has(code));
  return Map.groupBy(codes, (code) => HTTP_STATUS[code]);
}

/** One without details, and those with. */
const EXAMPLES = ["forbidden", "validation_failed", "step_up_required"] as const;
const EXAMPLE_ID = "0199a000-0000-7000-8000-000000000001";
const requestId = z.uuid().meta({ description: "Also in `X-Request-Id`." });
const errorCode = z
  .enum(CLIENT_CODES)
  .meta({ id: "ErrorCode", description: `Stable, with its status.\n\n${codeTable(CLIENT_CODES)}` });
const problems = z
  .array(
    z
      .strictObject({
        field: z.string().meta({ description: "Dotted path in the request." }),
        code: z.string().meta({ description: "Stable: `required`, `invalid_format`, `unknown_key`, …" }),
        message,
      })
      .meta({ id: "FieldProblem" }),
  )
  .meta({ description: "Every failing field; only with `validation_failed`." });
const stepUp = z
  .strictObject({
    acr: z.int().min(1).max(3),
    maxAgeSeconds: z.int().optional(),
    methods: z.array(z.string()).meta({ description: "Those that may reach it." }),
  })
  .meta({
    id: "StepUpDemand",
    description: "The assurance that the call demands; only with `step_up_required`.",
  });

const tries = z.strictObject({ retryAfter: z.int().min(1).meta({ description: "Seconds." }) }).meta({
  id: "TooManyTries",
  description:
    "There were many tries at this address from the caller's network; only with `invalid_credentials`. It says nothing of the account.",
});

const failureSchema = z
  .strictObject({
    success: z.literal(false),
    message,
    error: z.strictObject({
      code: errorCode,
      requestId,
      details: z.union([problems, stepUp, tries]).optional(),
    }),
  })
  .meta({
    id: "Failure",
    description: "A failure in our envelope.",
    examples: EXAMPLES.map((code) => exampleFor(code, undefined)),
  });

const problemSchema = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: message,
    instance: z.string(),
    code: errorCode,
    requestId,
    errors: problems.optional(),
    details: z.union([stepUp, tries]).optional(),
  })
  .meta({
    id: "Problem",
    description: "The same as RFC 9457's problem details.",
    examples: EXAMPLES.map((code) => exampleFor(code, PROBLEM_TYPE)),
  });

/** RFC 6749 §5.2. */
const oauthFailureSchema = z
  .strictObject({ error: z.enum([...new Set(CLIENT_CODES.map(oauthErrorOf))]), error_description: message })
  .meta({
    id: "OAuthFailure",
    description: "A failure of OAuth 2.0 (RFC 6749, section 5.2).",
    examples: [oauthFailure(new DomainError("invalid_client"))],
  });

/** RFC 8935 §2.3. */
const securityEventFailureSchema = z
  .strictObject({ err: z.enum(REFUSALS), description: message })
  .meta({ id: "SecurityEventFailure" });

interface FailureAnswer {
  /** What stands in `error.code`, in `code` of problem details, or in OAuth's `error`. */
  codes: readonly string[];
  /** By media type. The schemas have the examples. */
  content: Readonly<Record<string, z.ZodType>>;
}

export function failureAnswer(codes: readonly ErrorCode[], form?: "oauth" | "securityEvent"): FailureAnswer {
  if (form === "oauth")
    return { codes: [...new Set(codes.map(oauthErrorOf))], content: { [JSON_TYPE]: oauthFailureSchema } };
  if (form === "securityEvent" && codes.some((code) => HTTP_STATUS[code] === HTTP_BAD_REQUEST))
    return {
      // The router's own refusal of a path comes before the route.
      codes: [...REFUSALS, "bad_request"],
      content: {
        [JSON_TYPE]: z.union([securityEventFailureSchema, failureSchema]),
        [PROBLEM_TYPE]: problemSchema,
      },
    };
  return { codes, content: { [JSON_TYPE]: failureSchema, [PROBLEM_TYPE]: problemSchema } };
}

/** Written in Markdown. */
export function codeTable(codes: readonly ErrorCode[]): string {
  return codes.map((code) => `- \`${code}\` (${HTTP_STATUS[code]}): ${ERROR_CATALOGUE[code]}`).join("\n");
}

function exampleFor(code: ErrorCode, accept: string | undefined): object {
  const fields = [{ field: "email", code: "invalid_format", message: "Invalid email address" }];
  const demand = { acr: 2, maxAgeSeconds: 300, methods: ["passkey", "totp", "recovery_code"] } as const;
  const details = code === "step_up_required" ? { details: demand } : {};
  return failure(new DomainError(code, undefined, { fields, ...details }), EXAMPLE_ID, accept).body;
}
