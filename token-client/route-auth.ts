import { DomainError } from "../service-kit/errors.ts";
import type { Principal, Role } from "./principal.ts";

export type RouteAuth = "public" | "authenticated" | { roles: readonly Role[] };

/** Clients have no role, and no account of a user. @throws {DomainError} `forbidden`. */
export function assertAllowed(
  auth: Exclude<RouteAuth, "public"> | undefined,
  { kind, role }: Pick<Principal, "kind" | "role">,
): void {
  const isUser = kind === "user" && role !== "";
  const isAllowed = isUser && (auth === "authenticated" || auth?.roles.includes(role) === true);
  if (!isAllowed) throw new DomainError("forbidden");
}
