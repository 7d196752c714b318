import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError, type FieldProblem } from "../../service-kit/errors.ts";
import { fieldProblems } from "../../service-kit/field-problems.ts";

const NO_BODY = z.undefined("takes no body");
const NO_KEYS = z.strictObject({});

/** Checks all parts together to list every failing field. A part without a schema must be absent. */
export async function validateRequest(request: FastifyRequest): Promise<void> {
  if (request.is404) return;
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
  const body = check("body", schema?.body, NO_BODY, request.body);
  if (problems.length > 0) throw new DomainError("validation_failed", undefined, { fields: problems });
  request.params = params;
  request.query = query;
  request.body = body;
}
