import { z } from "zod";
import { parseYamlFile } from "../service-kit/yaml-file.ts";

/** Paths of ours, and of later versions. */
const OWN_PATHS = /^\/(?:auth|admin|oauth|docs|openapi|healthz|readyz|metrics|v\d+)(?:\/|$)/;
const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_BODY_LIMIT_BYTES = 16 * 1024 * 1024;

/** Who may call. */
const roles = z.array(z.enum(["USER", "ADMIN", "AUDITOR"])).min(1, "must let a role in");
/** What a call does: `payments.create`. The audit log names every call that may change something. */
const action = z
  .string()
  .max(100)
  .regex(/^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/, "must be like payments.create");
const reading = z.strictObject({ roles, action: action.optional() }).optional();
const changing = z.strictObject({ roles, action }).optional();

const upstreamRoute = z.strictObject({
  /** Path prefix: it matches itself and everything below it. */
  prefix: z
    .string()
    .max(200)
    .regex(/^(?:\/[a-z0-9][a-z0-9-]*)+$/, "must be a path of lower-case segments without a slash at its end")
    .refine((prefix) => !OWN_PATHS.test(prefix), "is a path of the gateway itself"),
  upstream: z
    .url({ protocol: /^https?$/, error: "must be an http or https URL", abort: true })
    .refine(isOrigin, "must be an origin only, such as http://payments:8080"),
  /** Longest silence of the upstream, before its answer and within it. */
  timeoutMs: z.int().min(1).max(600_000).default(DEFAULT_TIMEOUT_MS),
  /** A longer request body is refused, or cut off where its length was not announced. */
  bodyLimitBytes: z.int().min(0).default(DEFAULT_BODY_LIMIT_BYTES),
  /** A method that is not here is answered 405. HEAD goes with GET. */
  methods: z
    .strictObject({ GET: reading, POST: changing, PUT: changing, PATCH: changing, DELETE: changing })
    .refine((methods) => Object.keys(methods).length > 0, "must have a method"),
});

const routesFile = z.strictObject({
  routes: z.array(upstreamRoute).superRefine((routes, context) => {
    for (const [index, { prefix }] of routes.entries()) {
      const other = routes.slice(0, index).find((earlier) => overlaps(earlier.prefix, prefix));
      if (other === undefined) continue;
      const message = `overlaps with ${other.prefix}`;
      context.addIssue({ code: "custom", path: [index, "prefix"], message });
    }
  }),
});

/** Where calls below a prefix go, and who may make them. */
export type UpstreamRoute = z.infer<typeof upstreamRoute>;

/**
 * Reads a routes file.
 *
 * @param text YAML 1.2.
 * @throws {ConfigError} naming every problem with its line and key.
 */
export function parseRoutesFile(text: string): UpstreamRoute[] {
  return parseYamlFile(text, routesFile, "the routes file").routes;
}

function isOrigin(text: string): boolean {
  const { pathname, search, hash, username, password } = new URL(text);
  return pathname === "/" && search + hash + username + password === "";
}

function overlaps(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
}
