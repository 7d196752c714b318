import { DomainError } from "#kit/values/errors.ts";
import type { Principal, Role } from "./principal.ts";

export type RouteAuth =
  | "public"
  | "authenticated"
  | {
      roles: readonly Role[];
      /** Of clients, all of them. Without any, no client is allowed. */
      scopes?: readonly string[];
    };

/** Users by their role, clients by their scopes: a client has no account of a user. @throws {DomainError} `forbidden`. */
export function assertAllowed(
  auth: Exclude<RouteAuth, "public"> | undefined,
  { kind, role, scopes }: Pick<Principal, "kind" | "role" | "scopes">,
): void {
  if (kind === "client") {
    const wanted = typeof auth === "object" ? (auth.scopes ?? []) : [];
    if (wanted.length > 0 && wanted.every((scope) => scopes.includes(scope))) return;
    throw new DomainError("forbidden");
  }
  const isAllowed = role !== "" && (auth === "authenticated" || auth?.roles.includes(role) === true);
  if (!isAllowed) throw new DomainError("forbidden");
}
