import { nearestNames } from "#kit/values/nearest-names.ts";
import type { UpstreamRoute } from "./routes-file.ts";

/** Of the access file. */
export interface KnownNames {
  permissions: readonly string[];
  roles: readonly string[];
}

/**
 * Permissions and roles that routes name and the access file does not have. They admit nobody but roles with `*`, and no
 * client. A sentence each.
 */
export function unknownNames(routes: readonly UpstreamRoute[], known: KnownNames): string[] {
  return routes.flatMap(({ prefix, methods }) =>
    Object.entries(methods).flatMap(([method, { permissions = [], auth }]) => {
      const named = [
        ...permissions.map((name) => ({ name, among: known.permissions })),
        ...(typeof auth === "object" ? auth.roles : []).map((name) => ({ name, among: known.roles })),
      ];
      return named
        .filter(({ name, among }) => !among.includes(name))
        .map(({ name, among }) => `${method} ${prefix} names ${name}, ${hint(name, among)}`);
    }),
  );
}

function hint(name: string, among: readonly string[]): string {
  const near = nearestNames(name, among);
  const meant = near.length === 0 ? "" : `; is it ${near.join(" or ")}?`;
  return `which the access file does not have${meant}`;
}
