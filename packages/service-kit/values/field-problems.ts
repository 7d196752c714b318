import type { z } from "zod";
import type { FieldProblem } from "./errors.ts";

const MAX_PROBLEMS = 100;
const MAX_FIELD_CHARACTERS = 200;

/** Needs `reportInput: true`, otherwise a missing field becomes `invalid_type`. */
export function fieldProblems(issues: readonly z.core.$ZodIssue[], root: string): FieldProblem[] {
  return issues
    .flatMap((issue) => problemsOf(issue, root))
    .slice(0, MAX_PROBLEMS)
    .map((problem) => ({ ...problem, field: problem.field.slice(0, MAX_FIELD_CHARACTERS) }));
}

function problemsOf(issue: z.core.$ZodIssue, root: string): FieldProblem[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      field: [...issue.path, key].join("."),
      code: "unknown_key",
      message: "is not known",
    }));
  }
  if (issue.code === "invalid_union") {
    const meant = nearestOf(issue.errors);
    if (meant !== undefined)
      return meant.flatMap((inner) => problemsOf({ ...inner, path: [...issue.path, ...inner.path] }, root));
  }
  const field = issue.path.length === 0 ? root : issue.path.join(".");
  const code = codeOf(issue);
  return [{ field, code, message: code === "required" ? "is required" : issue.message }];
}

/** The alternative with the fewest problems. Undefined if that is not one. */
function nearestOf(alternatives: readonly z.core.$ZodIssue[][]): z.core.$ZodIssue[] | undefined {
  const fewest = Math.min(...alternatives.map(({ length }) => length));
  const nearest = alternatives.filter(({ length }) => length === fewest);
  return nearest.length === 1 ? nearest[0] : undefined;
}

function codeOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
    case "invalid_value":
      // JSON and query strings have no `undefined`.
      return issue.input === undefined ? "required" : issue.code;
    case "too_small":
      return issue.origin === "string" ? "too_short" : "too_small";
    case "too_big":
      return issue.origin === "string" ? "too_long" : "too_big";
    case "invalid_format":
      return "invalid_format";
    default:
      return "invalid_value";
  }
}
