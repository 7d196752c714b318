import { DomainError } from "#kit/values/errors.ts";

/** With a change of roles of the longest names it fits the 200 characters of an entry's reason. */
const MAX_CHARACTERS = 120;
/** Control characters, line separators and bidirectional overrides (Unicode TR #36 §2.6). */
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]/u;
const ADDRESS = /\S@\S/;
/** A telephone's, an account's or a card's has as many. */
const MAX_DIGITS = 8;
const DIGITS = /[\d ./()-]+/g;
/** May be said. */
const UUID_OR_DATE = /\b(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d\d-\d\d)\b/gi;
/** As long as 256 bits in base64url. A UUID has 36 characters. */
const SECRET = /[\w-]{43}/;

/**
 * Why a person acts, in their words, trimmed and in NFC. It becomes part of the provable log, from which nothing can be
 * erased, so it may refer to a person but not contain what identifies one.
 * @throws {DomainError} `validation_failed`.
 */
export function actReason(typed: string): string {
  const reason = typed.normalize("NFC").trim();
  if (reason.length > MAX_CHARACTERS) {
    throw refused("too_long", `must have at most ${MAX_CHARACTERS} characters`);
  }
  if (FORBIDDEN.test(reason)) throw refused("invalid_format", "must not contain control characters");
  if (ADDRESS.test(reason) || hasLongNumber(reason) || SECRET.test(reason)) {
    const message =
      "must not contain e-mail addresses, numbers of nine digits or more, or secrets: the audit log forgets nothing";
    throw refused("invalid_format", message);
  }
  return reason;
}

/** What the service says of its own account, and then the person's reason: `USER to AUDITOR: ticket 4711`. */
export function withReason(what: string, reason = ""): string {
  return [what, reason].filter((text) => text !== "").join(": ");
}

function hasLongNumber(reason: string): boolean {
  const numbers = reason.replace(UUID_OR_DATE, "#").match(DIGITS) ?? [];
  return numbers.some((number) => number.replace(/\D/g, "").length > MAX_DIGITS);
}

function refused(code: string, message: string): DomainError {
  return new DomainError("validation_failed", undefined, { fields: [{ field: "reason", code, message }] });
}
