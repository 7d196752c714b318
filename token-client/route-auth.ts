import { DomainError } from "../service-kit/errors.ts";
import type { Principal, Role } from "./principal.ts";

/** Who may call a route or method: anyone, anyone with a valid token, or certain roles. */
export type RouteAuth = "public" | "authenticated" | { roles: readonly Role[] };

/** @throws {DomainError} `forbidden`. */
export function assertAllowed(auth: Exclude<RouteAuth, "public"> | undefined, principal: Principal): void {
  const isAllowed = auth === "authenticated" || auth?.roles.includes(principal.role) === true;
  if (!isAllowed) throw new DomainError("forbidden");
}
