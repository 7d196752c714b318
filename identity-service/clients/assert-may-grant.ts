import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { MAX_GRANT_CHARACTERS } from "#kit/values/access-names.ts";
import { DomainError } from "#kit/values/errors.ts";

const MAX_SHOWN_CHARACTERS = 64;

export interface AuthorizeGrantDeps {
  access: Pick<AccessRules, "holds" | "isPermission">;
}

/**
 * Nobody gives a client what they do not hold, by whatever way: also not by a secret of a client that holds more.
 * A certificate's person holds everything. @throws {DomainError} `validation_failed`, `forbidden`.
 */
export function assertMayGrant(
  { access }: AuthorizeGrantDeps,
  { actor, person }: Pick<CallContext, "actor" | "person">,
  permissions: readonly string[],
): void {
  if (person !== undefined) return;
  if (actor === undefined) throw new DomainError("forbidden");
  if (!permissions.every((name) => holdsPermission(access, actor, name))) throw new DomainError("forbidden");
}

/** @throws {DomainError} `validation_failed`. */
export function assertPermissionNames({ access }: AuthorizeGrantDeps, names: readonly string[]): void {
  const message = problemOf(access, names);
  if (message === undefined) return;
  const fields = [{ field: "permissions", code: "invalid_format", message }];
  throw new DomainError("validation_failed", undefined, { fields });
}

function problemOf(access: AuthorizeGrantDeps["access"], names: readonly string[]): string | undefined {
  const unknown = names.find((name) => !access.isPermission(name));
  if (unknown !== undefined)
    return `must be names of the access file, which has no ${JSON.stringify(unknown.slice(0, MAX_SHOWN_CHARACTERS))}`;
  if (names.length < 1 || names.length > 100 || new Set(names).size !== names.length)
    return "must be 1 to 100 different names";
  if (names.join(" ").length > MAX_GRANT_CHARACTERS)
    return `must have at most ${MAX_GRANT_CHARACTERS} characters together`;
  return undefined;
}
