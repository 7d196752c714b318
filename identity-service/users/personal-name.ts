import { localPartOf } from "#kit/values/canonical-email.ts";
import type { FieldProblem } from "#kit/values/errors.ts";
import { PERSONAL_NAME, UNSEEN_IN_NAMES } from "#kit/values/unseen.ts";

const MAX_NAME_CODE_POINTS = 100;

/** Trims, makes every space an ordinary one, and normalises to NFC. The last name may be empty: docs/decisions/registration-and-mail.md. */
export function personalName(
  field: "firstName" | "lastName",
  typed: string,
): { name: string; problem?: never } | { problem: FieldProblem; name?: never } {
  const name = withOrdinarySpaces(typed);
  if (name === "" && field === "lastName") return { name };
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

/** As `personalName`, of a change in which an undefined name stays. */
export function changedNames({
  firstName,
  lastName,
}: Partial<Record<"firstName" | "lastName", string | undefined>>) {
  const first = firstName === undefined ? undefined : personalName("firstName", firstName);
  const last = lastName === undefined ? undefined : personalName("lastName", lastName);
  const problems = [first?.problem, last?.problem].filter((problem) => problem !== undefined);
  return { names: { firstName: first?.name, lastName: last?.name }, problems };
}

function withOrdinarySpaces(typed: string): string {
  return typed
    .normalize("NFC")
    .replaceAll(/\p{Zs}+/gu, " ")
    .trim();
}

/**
 * Names as another system reports them: shortened, and only what it says. `name` says what the other two do not. A single name
 * is the first one, wherever it stands. Without any, the address gives the first name.
 */
export function reportedNames(reported: {
  firstName: string;
  lastName: string;
  name: string;
  /** Canonical. Without one there is no account. */
  email: string | undefined;
}): { firstName: string; lastName: string } {
  const [first, last, name] = [usable(reported.firstName), usable(reported.lastName), usable(reported.name)];
  if (first !== "") {
    const rest = name.startsWith(`${first} `) ? name.slice(first.length) : "";
    return { firstName: first, lastName: last || usable(rest) };
  }
  if (last !== "") {
    const rest = usable(name.endsWith(` ${last}`) ? name.slice(0, -last.length) : name);
    return rest === "" || rest === last
      ? { firstName: last, lastName: "" }
      : { firstName: rest, lastName: last };
  }
  const [word = "", ...rest] = name.split(" ");
  const { email = "" } = reported;
  return { firstName: word || usable(localPartOf(email)) || usable(email), lastName: rest.join(" ") };
}

/** Empty if nothing of it can be seen. */
function usable(reported: string): string {
  const seen = withOrdinarySpaces(reported).replaceAll(UNSEEN_IN_NAMES, "");
  const short = [...seen].slice(0, MAX_NAME_CODE_POINTS).join("");
  // The end may have been a joiner between letters.
  return withOrdinarySpaces(short.replaceAll(UNSEEN_IN_NAMES, ""));
}

/** As it is shown. */
export function fullName({ firstName, lastName }: { firstName: string; lastName: string }): string {
  return `${firstName} ${lastName}`.trim();
}
