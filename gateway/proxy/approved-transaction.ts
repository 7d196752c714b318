import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import { memberOf, pointerTokens } from "#kit/values/json-pointer.ts";
import { parseStrictJson } from "#kit/values/strict-json.ts";
import type { ApprovalDemand } from "#routes-file/routes-file.ts";

/** Users are shown it, and it must fit into a message between services. */
const MAX_TRANSACTION_BYTES = 16_384;
/** A number in the fewest digits has at most 24. */
const MAX_NUMBER_CHARACTERS = 40;
const NUMBER = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/** Of the call, beside its body. */
export interface TransactionFrame {
  user: string;
  session: string;
  method: string;
  /** Path and query as the client wrote them, without the version. */
  route: string;
}

/** The values at the pointers. A pointer to nothing has no entry. */
export type ApprovedFields = Readonly<Record<string, unknown>>;

/** A number that differs from its double, so that two amounts could have one digest. */
class InexactNumber {}

/**
 * Other members whose names differ only in case or form are refused, because some parsers take one for the other.
 * @throws {DomainError} `bad_request`, `validation_failed`. @see RFC 6901 §4.
 */
export function readApprovedFields(body: Uint8Array, pointers: readonly string[]): ApprovedFields {
  if (parseStrictJson(body) === undefined) throw new DomainError("bad_request", "The body must be JSON.");
  const document: unknown = JSON.parse(Buffer.from(body).toString("utf8"), exactNumber);
  const found = pointers.map((pointer) => [pointer, valueAt(document, pointer)] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== undefined));
}

/** A value that is absent or not a number needs an approval. Every number here equals its text exactly. */
export function needsApproval({ when }: Pick<ApprovalDemand, "when">, fields: ApprovedFields): boolean {
  const value = when === undefined ? undefined : fields[when.field];
  return when === undefined || typeof value !== "number" || value > when.above;
}

/** RFC 8785. @throws {DomainError} `payload_too_large`. */
export function transactionText(frame: TransactionFrame, fields: ApprovedFields): string {
  const { user, session, method, route } = frame;
  const text = canonicalize({ user, session, method, route, fields });
  if (text === undefined) throw new Error("a transaction has no canonical form");
  if (Buffer.byteLength(text) > MAX_TRANSACTION_BYTES) {
    throw new DomainError("payload_too_large", "The fields to approve are too large.");
  }
  return text;
}

export function transactionDigest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** A reviver of `JSON.parse`. */
function exactNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number") return value;
  return decimal(context?.source ?? "") === decimal(String(value)) ? value : new InexactNumber();
}

/** One text for each decimal number: sign, digits without zeros at either end, exponent. NaN if it is too long. */
function decimal(text: string): string | number {
  const parts = text.length <= MAX_NUMBER_CHARACTERS ? NUMBER.exec(text) : null;
  if (parts === null) return Number.NaN;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = parts;
  const digits = (whole + fraction).replace(/^0+/, "");
  let end = digits.length;
  while (digits[end - 1] === "0") end -= 1;
  if (end === 0) return "0";
  return `${sign}${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}

function valueAt(document: unknown, pointer: string): unknown {
  let value = document;
  for (const token of pointerTokens(pointer)) {
    if (hasLookalike(value, token)) {
      throw invalidField(
        pointer,
        "duplicate_key",
        "has another member whose name differs only in its spelling",
      );
    }
    value = memberOf(value, token);
  }
  if (isInexact(value)) {
    throw invalidField(
      pointer,
      "inexact_number",
      "must be a number that a double holds exactly as it is written",
    );
  }
  return value;
}

function hasLookalike(value: unknown, token: string): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const wanted = folded(token);
  return Object.keys(value).some((name) => name !== token && folded(name) === wanted);
}

/** Case and compatibility forms. Both cases, because some letters differ only in one. */
function folded(name: string): string {
  return name.normalize("NFKC").toUpperCase().toLowerCase();
}

function isInexact(value: unknown): boolean {
  if (value instanceof InexactNumber) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(isInexact);
}
