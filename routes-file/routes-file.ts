import { z } from "zod";
import { parseYamlFile } from "../service-kit/yaml-file.ts";

/** Paths of the gateway, and of later versions. */
const OWN_PATHS = /^\/(?:auth|admin|oauth|docs|openapi|healthz|readyz|metrics|v\d+)(?:\/|$)/;
const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_BODY_LIMIT_BYTES = 16 * 1024 * 1024;
const DEFAULT_TOTAL_TIMEOUT_MS = 120_000;
const DEFAULT_MIN_BODY_BYTES_PER_S = 10_240;
const DEFAULT_MAX_OPEN_PER_CALLER = 32;
const DEFAULT_MAX_WEBSOCKETS_PER_CALLER = 8;
const MAX_OPEN = 100_000;
const MAX_BYTES_PER_S = 1_000_000_000;

const MAX_UPSTREAMS = 64;
const MAX_TIMEOUT_MS = 3_600_000;
const DEFAULT_CONNECT_TIMEOUT_MS = 2_000;

/** These headers never pass from a client. The gateway sets them, or they end at each hop. */
const GATEWAY_HEADERS =
  /^(?:host|authorization|proxy-.*|connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|expect|content-length|forwarded|traceparent|tracestate|baggage|x-request-id|x-(?:user|session|forwarded|actor)(?:-.*)?)$/;
/** Names are converted to lower case. `_` is excluded, because many servers treat it as `-`. */
const requestHeader = z
  .string()
  .max(100)
  .toLowerCase()
  .regex(/^[a-z0-9-]+$/, "must be a header's name of letters, digits and -")
  .refine((name) => !GATEWAY_HEADERS.test(name), "is set by the gateway, or ends at each hop");

const roles = z.array(z.enum(["USER", "ADMIN", "AUDITOR"])).min(1, "must let a role in");
/** Audit action, for example `payments.create`. Required for mutating methods. */
const action = z
  .string()
  .max(100)
  .regex(/^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/, "must be like payments.create");
/** Exactly one of the two is required. */
const access = { roles: roles.optional(), auth: z.enum(["public", "authenticated"]).optional() };

type Access = z.infer<z.ZodObject<typeof access>>;
const hasOneAccess = ({ roles, auth }: Access) => (roles === undefined) !== (auth === undefined);
const ONE_ACCESS = "must have either roles, or auth: authenticated, or auth: public";

const reading = z
  .strictObject({ ...access, action: action.optional() })
  .refine(hasOneAccess, ONE_ACCESS)
  .transform(toPolicy)
  .optional();
const changing = z
  .strictObject({ ...access, action })
  .refine(hasOneAccess, ONE_ACCESS)
  .transform(toPolicy)
  .optional();

export interface MethodPolicy {
  auth: "public" | "authenticated" | { roles: readonly z.infer<typeof roles>[number][] };
  action?: string;
}

function toPolicy({ roles, auth, action }: Access & { action?: string | undefined }): MethodPolicy {
  return { auth: roles === undefined ? (auth ?? { roles: [] }) : { roles }, ...(action && { action }) };
}

/** A burst of `calls`, refilled over `perSeconds`. */
export interface RateLimit {
  calls: number;
  perSeconds: number;
}

interface RouteRateLimits {
  /** Anonymous calls are not counted. */
  perUser: RateLimit;
  /** Limit per IPv4 address or IPv6 /64, 4 times for a /56 and 16 times for a /48. */
  perAddress: RateLimit;
  /** On public methods it counts only networks without a recent success. */
  total: RateLimit | undefined;
}

const DEFAULT_RATE_LIMITS = {
  perUser: { calls: 600, perSeconds: 60 },
  perAddress: { calls: 6_000, perSeconds: 60 },
};
const MAX_CALLS = 1_000_000_000;
const MAX_PERIOD_S = 3_600;

export const rateLimitSchema = z.strictObject({
  calls: z.int().min(1).max(MAX_CALLS),
  perSeconds: z.int().min(1).max(MAX_PERIOD_S),
});
const rateLimits = z
  .strictObject({
    perUser: rateLimitSchema.default(DEFAULT_RATE_LIMITS.perUser),
    perAddress: rateLimitSchema.default(DEFAULT_RATE_LIMITS.perAddress),
    total: rateLimitSchema.optional(),
  })
  .default(DEFAULT_RATE_LIMITS)
  .transform(({ perUser, perAddress, total }): RouteRateLimits => ({ perUser, perAddress, total }));

const upstreamUrl = z
  .url({ protocol: /^https?$/, error: "must be an http or https URL", abort: true })
  .refine(isOrigin, "must be an origin only, such as http://payments:8080");
const timeoutMs = z.int().min(1).max(MAX_TIMEOUT_MS);
const webOrigin = z
  .string()
  .refine(
    (text) => text === "*" || isWebOrigin(text),
    "must be an origin as browsers send it, such as https://app.example.com, or *",
  );

const upstreamRoute = z
  .strictObject({
    /** The prefix matches itself and all paths below it. */
    prefix: z
      .string()
      .max(200)
      .regex(
        /^(?:\/[a-z0-9][a-z0-9-]*)+$/,
        "must be a path of lower-case segments without a slash at its end",
      )
      .refine((prefix) => !OWN_PATHS.test(prefix), "is a path of the gateway itself"),
    upstream: upstreamUrl.optional(),
    upstreams: z.array(upstreamUrl).min(1, "must name an upstream").max(MAX_UPSTREAMS).optional(),
    stripPrefix: z.boolean().default(false),
    /** Default for the more specific time-outs. */
    timeoutMs: timeoutMs.default(DEFAULT_TIMEOUT_MS),
    connectTimeoutMs: timeoutMs.optional(),
    headersTimeoutMs: timeoutMs.optional(),
    idleTimeoutMs: timeoutMs.optional(),
    totalTimeoutMs: timeoutMs.optional(),
    /** Has no default total time-out. */
    streaming: z.boolean().default(false),
    /** Minimum average rate of request and response. 0 disables it. */
    minBodyBytesPerS: z.int().min(0).max(MAX_BYTES_PER_S).default(DEFAULT_MIN_BODY_BYTES_PER_S),
    /** Limit per user, or per network on public methods, at one gateway. */
    maxOpenPerCaller: z.int().min(1).max(MAX_OPEN).default(DEFAULT_MAX_OPEN_PER_CALLER),
    maxWebSocketsPerCaller: z.int().min(1).max(MAX_OPEN).default(DEFAULT_MAX_WEBSOCKETS_PER_CALLER),
    bodyLimitBytes: z.int().min(0).default(DEFAULT_BODY_LIMIT_BYTES),
    allowedOrigins: z
      .array(webOrigin)
      .max(100)
      .refine((origins) => origins.length === 1 || !origins.includes("*"), "* must stand alone")
      .default([]),
    allowRequestHeaders: z.array(requestHeader).max(100).default([]),
    /** Refuses paths that an upstream might decode twice, or into delimiters. */
    strictPaths: z.boolean().default(true),
    websocket: z.boolean().default(false),
    rateLimit: rateLimits,
    /** Other methods are answered with 405. GET includes HEAD. */
    methods: z
      .strictObject({ GET: reading, POST: changing, PUT: changing, PATCH: changing, DELETE: changing })
      .refine((methods) => Object.keys(methods).length > 0, "must have a method"),
  })
  .superRefine((route, context) => {
    if (route.websocket && route.methods.GET === undefined) {
      context.addIssue({ code: "custom", path: ["websocket"], message: "needs the method GET" });
    }
  })
  .check(
    // Runs despite other problems, so that all are reported at once.
    z.refine(hasOneUpstreamKey, {
      path: ["upstream"],
      error: ({ input }) =>
        hasKey(input, "upstream") ? "must not stand beside upstreams" : "is required (or upstreams)",
      when: () => true,
    }),
  )
  .transform(toRoute);

export interface UpstreamRoute {
  prefix: string;
  upstreams: readonly string[];
  stripPrefix: boolean;
  connectTimeoutMs: number;
  headersTimeoutMs: number;
  idleTimeoutMs: number;
  totalTimeoutMs: number | undefined;
  streaming: boolean;
  minBodyBytesPerS: number;
  maxOpenPerCaller: number;
  maxWebSocketsPerCaller: number;
  bodyLimitBytes: number;
  /** `*` alone allows all origins. */
  allowedOrigins: readonly string[];
  allowRequestHeaders: readonly string[];
  strictPaths: boolean;
  websocket: boolean;
  rateLimit: RouteRateLimits;
  methods: Readonly<Partial<Record<"GET" | "POST" | "PUT" | "PATCH" | "DELETE", MethodPolicy>>>;
}

type WrittenRoute = Omit<
  UpstreamRoute,
  "upstreams" | "connectTimeoutMs" | "headersTimeoutMs" | "idleTimeoutMs" | "totalTimeoutMs" | "methods"
> & {
  upstream?: string | undefined;
  upstreams?: string[] | undefined;
  timeoutMs: number;
  connectTimeoutMs?: number | undefined;
  headersTimeoutMs?: number | undefined;
  idleTimeoutMs?: number | undefined;
  totalTimeoutMs?: number | undefined;
  methods: { [method in keyof UpstreamRoute["methods"]]?: MethodPolicy | undefined };
};

function toRoute({ upstream, upstreams, timeoutMs, methods, ...route }: WrittenRoute): UpstreamRoute {
  return {
    ...route,
    upstreams: (upstreams ?? [upstream ?? ""]).map((url) => new URL(url).origin),
    connectTimeoutMs: route.connectTimeoutMs ?? Math.min(timeoutMs, DEFAULT_CONNECT_TIMEOUT_MS),
    headersTimeoutMs: route.headersTimeoutMs ?? timeoutMs,
    idleTimeoutMs: route.idleTimeoutMs ?? timeoutMs,
    totalTimeoutMs: route.totalTimeoutMs ?? (route.streaming ? undefined : defaultTotalMs(route, timeoutMs)),
    methods: Object.fromEntries(Object.entries(methods).filter(([, policy]) => policy !== undefined)),
  };
}

/** The default is at least as long as the other time-outs allow. */
function defaultTotalMs(
  { headersTimeoutMs, idleTimeoutMs }: Pick<WrittenRoute, "headersTimeoutMs" | "idleTimeoutMs">,
  timeoutMs: number,
): number {
  return Math.max(DEFAULT_TOTAL_TIMEOUT_MS, (headersTimeoutMs ?? timeoutMs) + (idleTimeoutMs ?? timeoutMs));
}

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

/** Parses YAML 1.2. @throws {ConfigError} naming every problem with its line and key. */
export function parseRoutesFile(text: string): UpstreamRoute[] {
  return parseYamlFile(text, routesFile, "the routes file").routes;
}

function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { pathname, search, hash, username, password } = new URL(text);
  return pathname === "/" && search + hash + username + password === "";
}

/** The form of the header `Origin` (RFC 6454 §6.2). */
export function isWebOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

function hasOneUpstreamKey(route: unknown): boolean {
  return hasKey(route, "upstream") !== hasKey(route, "upstreams");
}

function hasKey(value: unknown, key: string): boolean {
  if (typeof value !== "object" || value === null) return key === "upstream";
  return (value as Record<string, unknown>)[key] !== undefined;
}

function overlaps(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
}
