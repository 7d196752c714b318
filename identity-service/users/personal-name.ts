import { localPartOf } from "../../service-kit/canonical-email.ts";
import type { FieldProblem } from "../../service-kit/errors.ts";

const MAX_NAME_CODE_POINTS = 100;

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

/** For a missing family name, which the database requires. */
const NO_NAME = "-";

/** Names as another system tells them: shortened, and never empty. `name` is split where the others are empty. */
export function toldNames(told: {
  firstName: string;
  lastName: string;
  name: string;
  /** Canonical. */
  email: string | undefined;
}): { firstName: string; lastName: string } {
  const [first = "", ...rest] = told.name.trim().split(/\s+/);
  const localPart = told.email === undefined ? "" : localPartOf(told.email);
  return {
    firstName: nameOf("firstName", told.firstName || first || localPart),
    lastName: nameOf("lastName", told.lastName || rest.join(" ")),
  };
}

function nameOf(field: "firstName" | "lastName", told: string): string {
  const short = [...told.normalize("NFC").trim()].slice(0, MAX_NAME_CODE_POINTS).join("");
  return personalName(field, short).name ?? NO_NAME;
}
