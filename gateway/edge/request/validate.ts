import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError, type FieldProblem } from "#kit/values/errors.ts";
import { fieldProblems } from "#kit/values/field-problems.ts";
import { isBrowserSession } from "./browser-session.ts";

const NO_BODY = z.undefined("takes no body");
const NO_KEYS = z.strictObject({});

/** Lists every failing field of all parts. A part without a schema must be absent. */
export async function validateRequest(request: FastifyRequest): Promise<void> {
  if (request.is404) return;
  refuseWithoutToken(request);
  const { schema } = request.routeOptions;
  const problems: FieldProblem[] = [];
  const check = (part: string, declared: unknown, otherwise: z.ZodType, value: unknown): unknown => {
    const result = (declared instanceof z.ZodType ? declared : otherwise).safeParse(value, {
      reportInput: true,
    });
    if (result.success) return result.data;
    problems.push(...fieldProblems(result.error.issues, part));
    return undefined;
  };
  const params = check("path", schema?.params, NO_KEYS, request.params);
  const query = check("query", schema?.querystring, NO_KEYS, request.query);
  const body = check("body", bodySchemaOf(request), NO_BODY, request.body);
  if (problems.length > 0) throw new DomainError("validation_failed", undefined, { fields: problems });
  request.params = params;
  request.query = query;
  request.body = body;
}

function bodySchemaOf(request: FastifyRequest): unknown {
  const { body, browserBody } = (request.routeOptions.schema ?? {}) as {
    body?: unknown;
    browserBody?: unknown;
  };
  return browserBody !== undefined && isBrowserSession(request) ? browserBody : body;
}

/** The body, or a cookie, may have a token in place of the access token that is missing or has expired. */
function refuseWithoutToken(request: FastifyRequest): void {
  const { body, state } = request;
  const { refusal, policy } = state;
  if (refusal === null) return;
  const member = policy?.orTokenInBody ?? "";
  if (member === "refreshToken" && isBrowserSession(request)) return;
  if (typeof body !== "object" || body === null || !Object.hasOwn(body, member)) throw refusal.error;
}
