import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { listPasskeys, type Passkey, setPasskeyName } from "./passkey-store.ts";

const MAX_CODE_POINTS = 64;
/** Control characters, line separators and bidirectional overrides (Unicode TR #36 §2.6). */
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]/u;

/** Oldest first. */
export function listOwnPasskeys(deps: { sql: Sql }, userId: string): Promise<Passkey[]> {
  return listPasskeys(deps.sql, userId);
}

/** @throws {DomainError} `not_found`, `validation_failed`. */
export async function renamePasskey(
  deps: { sql: Sql },
  { userId, passkeyId: id, name }: { userId: string; passkeyId: string; name: string },
): Promise<Passkey> {
  const renamed = await setPasskeyName(deps.sql, { userId, id, name: passkeyName(name) });
  if (renamed === undefined) throw new DomainError("not_found");
  return renamed;
}

/** Trimmed and in NFC. @throws {DomainError} `validation_failed`. */
export function passkeyName(typed: string): string {
  const name = typed.normalize("NFC").trim();
  if (name === "") throw badName("too_short", "must not be empty");
  if (FORBIDDEN.test(name)) throw badName("invalid_format", "must not contain control characters");
  if ([...name].length > MAX_CODE_POINTS)
    throw badName("too_long", `must have at most ${MAX_CODE_POINTS} characters`);
  return name;
}

function badName(code: string, message: string): DomainError {
  return new DomainError("validation_failed", undefined, { fields: [{ field: "name", code, message }] });
}
