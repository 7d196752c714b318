import { DomainError } from "../service-kit/errors.ts";
import type { Principal, Role } from "./principal.ts";

export type RouteAuth = "public" | "authenticated" | { roles: readonly Role[] };

/** @throws {DomainError} `forbidden`. */
export function assertAllowed(auth: Exclude<RouteAuth, "public"> | undefined, principal: Principal): void {
  const isAllowed = auth === "authenticated" || auth?.roles.includes(principal.role) === true;
  if (!isAllowed) throw new DomainError("forbidden");
}
