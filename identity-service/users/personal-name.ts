import type { FieldProblem } from "../../service-kit/errors.ts";

export const MAX_NAME_CODE_POINTS = 100;

/** Control characters, line separators and bidirectional overrides (Unicode TR #36 §2.6). */
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]/u;

/** Trims and normalises to NFC. */
export function personalName(
  field: "firstName" | "lastName",
  typed: string,
): { name: string; problem?: never } | { problem: FieldProblem; name?: never } {
  const name = typed.normalize("NFC").trim();
  if (name === "") return { problem: { field, code: "too_short", message: "must not be empty" } };
  if (FORBIDDEN.test(name)) {
    return { problem: { field, code: "invalid_format", message: "must not contain control characters" } };
  }
  // UTF-16 units are an upper bound of code points.
  if (name.length > MAX_NAME_CODE_POINTS && [...name].length > MAX_NAME_CODE_POINTS) {
    return {
      problem: { field, code: "too_long", message: `must have at most ${MAX_NAME_CODE_POINTS} characters` },
    };
  }
  return { name };
}
