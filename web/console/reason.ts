const MAX_CHARACTERS = 120;
/** Control characters, line separators and bidirectional overrides (Unicode TR #36 §2.6). */
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]/u;
const ADDRESS = /\S@\S/;
const MAX_DIGITS = 8;
const DIGITS = /[\d ./()-]+/g;
const UUID_OR_DATE = /\b(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d\d-\d\d)\b/gi;
const SECRET = /[\w-]{43}/;

/**
 * Why a reason will be refused, as the key of a text. Empty: it will not. `identity-service/audit/act-reason.ts` has the same
 * rule, and a test compares them.
 */
export function reasonProblem(typed: string) {
  const reason = typed.normalize("NFC").trim();
  if (reason === "") return "form.required";
  if (reason.length > MAX_CHARACTERS) return "problems.reasonLong";
  if (FORBIDDEN.test(reason)) return "problems.reasonUnseen";
  return ADDRESS.test(reason) || hasLongNumber(reason) || SECRET.test(reason) ? "problems.reason" : "";
}

function hasLongNumber(reason: string): boolean {
  const numbers = reason.replace(UUID_OR_DATE, "#").match(DIGITS) ?? [];
  return numbers.some((number) => number.replace(/\D/g, "").length > MAX_DIGITS);
}
