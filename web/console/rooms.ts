import type { TextKey } from "./text.ts";

/** What stands in the navigation, by the permission that opens it. Order: the first one is where a person arrives. */
export const ROOMS: readonly { path: string; name: TextKey; permission: string }[] = [
  { path: "/overview", name: "overview.title", permission: "audit:read" },
  { path: "/users", name: "users.title", permission: "users:read" },
  { path: "/clients", name: "clients.title", permission: "clients:read" },
  { path: "/audit", name: "audit.title", permission: "audit:read:user" },
  { path: "/system", name: "system.title", permission: "system:read" },
];
