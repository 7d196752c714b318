import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { parseYamlFile } from "#kit/config/yaml-file.ts";

/** Generated from the API document: `npm run generate:api`. */
const FILE = join(import.meta.dirname, "own-routes.yaml");

const ownRoutes = z.array(
  z.strictObject({
    method: z.enum(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    /** `/admin/users/{id}`. */
    path: z.string(),
    /** `service`: of its own kind of authentication. `client`: a user is refused. */
    auth: z.enum(["public", "authenticated", "service", "client"]).optional(),
    /** All of them. */
    permissions: z.array(z.string()).optional(),
  }),
);

export type OwnRoute = z.output<typeof ownRoutes>[number];

/** The routes that the gateway serves itself. */
export function readOwnRoutes(): OwnRoute[] {
  return parseYamlFile(readFileSync(FILE, "utf8"), ownRoutes, "the list of own routes");
}
