import { localPartOf } from "../../service-kit/canonical-email.ts";
import type { FieldProblem } from "../../service-kit/errors.ts";
import { PERSONAL_NAME, UNSEEN_IN_NAMES } from "../../service-kit/unseen.ts";

const MAX_NAME_CODE_POINTS = 100;

/** Trims, makes every space an ordinary one, and normalises to NFC. */
export function personalName(
  field: "firstName" | "lastName",
  typed: string,
): { name: string; problem?: never } | { problem: FieldProblem; name?: never } {
  const name = withOrdinarySpaces(typed);
  if (name === "") return { problem: { field, code: "too_short", message: "must not be empty" } };
  if (!PERSONAL_NAME.test(name)) {
    const message = "must be printable text, without invisible characters";
    return { problem: { field, code: "invalid_format", message } };
  }
  // UTF-16 units are an upper bound of code points.
  if (name.length > MAX_NAME_CODE_POINTS && [...name].length > MAX_NAME_CODE_POINTS) {
    return {
      problem: { field, code: "too_long", message: `must have at most ${MAX_NAME_CODE_POINTS} characters` },
    };
  }
  return { name };
}

function withOrdinarySpaces(typed: string): string {
  return typed
    .normalize("NFC")
    .replaceAll(/\p{Zs}+/gu, " ")
    .trim();
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
  const seen = withOrdinarySpaces(told).replaceAll(UNSEEN_IN_NAMES, "");
  const short = [...seen].slice(0, MAX_NAME_CODE_POINTS).join("");
  return personalName(field, short).name ?? NO_NAME;
}
