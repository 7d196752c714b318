import { z } from "zod";
import { parseYamlFile } from "#kit/config/yaml-file.ts";
import { PERMISSION_NAME, ROLE_NAME } from "#kit/values/access-names.ts";
import { AUDIENCE_FORM, isAudience, isSameAudience } from "#kit/values/audience.ts";
import { isJsonPointer } from "#kit/values/json-pointer.ts";

/** Paths of the gateway, and of later versions. */
const OWN_PATHS =
  /^\/(?:auth|admin|oauth|account|console|docs|openapi|ssf|healthz|readyz|metrics|v\d+)(?:\/|$)/;
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

/** The gateway sets these, or they end at each hop. */
const GATEWAY_HEADERS =
  /^(?:host|authorization|proxy-.*|connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|expect|content-length|forwarded|via|x-real-ip|x-(?:original|rewrite)-.*|x-(?:http-)?method(?:-override)?|traceparent|tracestate|baggage|x-request-id|gatehouse-.*|dpop|client-cert(?:-chain)?|x-auth-(?:context|time)|x-client-id|x-scope|x-(?:user|session|forwarded|actor|approval)(?:-.*)?)$/;
/**
 * No upstream sends these to a client: browsers apply them to the whole origin, the gateway sets them, a server in front of
 * it obeys them, or they end at each hop.
 */
const NEVER_DOWNSTREAM =
  /^(?:accept-ch(?:-.*)?|access-control-.*|activate-storage-access|ad-auction-.*|alt-svc|attribution-reporting-.*|clear-site-data|connection|critical-ch|dpop-nonce|expect-.*|gatehouse-.*|http2-settings|keep-alive|nel|observe-browsing-topics|origin-.*|proxy-.*|public-key-pins(?:-.*)?|ratelimit(?:-.*)?|report-to|reporting-endpoints|sec-(?!websocket-).*|secure-session-.*|server|service-worker-allowed|set-cookie2|set-login|shared-storage-.*|strict-transport-security|supports-loading-mode|te|trailer|transfer-encoding|upgrade|use-as-dictionary|via|x-accel-(?!buffering$).*|x-allow-fledge|x-envoy-.*|x-lighttpd-.*|x-litespeed-.*|x-permitted-cross-domain-policies|x-powered-by|x-request-id|x-reproxy-.*|x-sendfile(?:-.*)?)$/;

/** @param name in lower case. */
export function mayPassDownstream(name: string): boolean {
  return !NEVER_DOWNSTREAM.test(name);
}

/** Excludes `_`, because many servers treat it as `-`. */
const headerName = z
  .string()
  .max(100)
  .toLowerCase()
  .regex(/^[a-z0-9-]+$/, "must be a header's name of letters, digits and -");
const requestHeader = headerName.refine(
  (name) => !GATEWAY_HEADERS.test(name),
  "is set by the gateway, or ends at each hop",
);
const responseHeader = headerName.refine(
  mayPassDownstream,
  "speaks for the whole origin or for the gateway, or ends at each hop",
);

const roles = z
  .array(z.string().regex(ROLE_NAME, "must be a role such as USER"))
  .min(1, "must allow at least one role");
const permissions = z
  .array(z.string().regex(PERMISSION_NAME, "must be like payments:read"))
  .min(1, "must demand at least one permission")
  .max(16);
/** The audit log cuts a longer one. */
const MAX_ACTION_CHARACTERS = 64;
/** Audit action: `payments.create`. Required for mutating methods. */
const action = z
  .string()
  .max(MAX_ACTION_CHARACTERS)
  .regex(/^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/, "must be like payments.create");
const MIN_PROOF_AGE_S = 30;
const MAX_PROOF_AGE_S = 30 * 86_400;
/** What the caller's session must have proven. The age counts from the last proof of its level. */
export const assuranceSchema = z
  .strictObject({
    acr: z.union([z.literal(1), z.literal(2), z.literal(3)], { error: "must be 1, 2 or 3" }),
    maxAgeSeconds: z.int().min(MIN_PROOF_AGE_S).max(MAX_PROOF_AGE_S).optional(),
  })
  .refine(({ acr, maxAgeSeconds }) => acr > 1 || maxAgeSeconds !== undefined, {
    path: ["maxAgeSeconds"],
    error: "is required with acr 1, which every token has",
  });

type RouteAssurance = z.output<typeof assuranceSchema>;

const access = {
  assurance: assuranceSchema.optional(),
  roles: roles.optional(),
  /** All of them. */
  permissions: permissions.optional(),
  auth: z.enum(["public", "authenticated"]).optional(),
};

type Access = z.infer<z.ZodObject<typeof access>>;
const knowsItsCaller = ({ assurance, auth }: Access) => assurance === undefined || auth !== "public";
const KNOWN_CALLER = { path: ["assurance"], error: "needs a caller: not with auth: public" };
const hasOneAccess = ({ permissions, roles, auth }: Access) =>
  [permissions, roles, auth].filter((each) => each !== undefined).length === 1;
const ONE_ACCESS = "must have either permissions, or roles, or auth: authenticated, or auth: public";

const reading = z
  .strictObject({ ...access, action: action.optional() })
  .refine(hasOneAccess, ONE_ACCESS)
  .refine(knowsItsCaller, KNOWN_CALLER)
  .transform(toPolicy)
  .optional();

const MAX_APPROVED_FIELDS = 16;
const MAX_POINTER_CHARACTERS = 200;
const pointer = z
  .string()
  .max(MAX_POINTER_CHARACTERS)
  .refine(isJsonPointer, "must be a JSON pointer such as /amount (RFC 6901) to a part of the body");
const approvalDemand = z
  .strictObject({
    /** What the user is shown and approves: JSON pointers into the body. */
    fields: z.array(pointer).min(1, "must name a field").max(MAX_APPROVED_FIELDS),
    /** Other calls need no approval. A value that is absent or not a number needs one. Default: always. */
    when: z.strictObject({ field: pointer, above: z.number() }).optional(),
    acr: z.literal([2, 3]).default(2),
    ttlSeconds: z.int().min(30).max(900).default(300),
  })
  .superRefine(({ fields, when }, context) => {
    for (const [index, field] of fields.entries()) {
      const before = fields.slice(0, index).find((other) => isWithin(field, other) || isWithin(other, field));
      if (before === undefined) continue;
      const message = before === field ? "appears more than once" : `overlaps with ${before}`;
      context.addIssue({ code: "custom", path: ["fields", index], message });
    }
    if (when === undefined || fields.includes(when.field)) return;
    context.addIssue({ code: "custom", path: ["when", "field"], message: "must be one of fields" });
  });

/** A call passes only with the user's approval of these fields. */
export type ApprovalDemand = z.output<typeof approvalDemand>;

const changing = z
  .strictObject({ ...access, action, approval: approvalDemand.optional() })
  .refine(hasOneAccess, ONE_ACCESS)
  .refine(({ auth, approval }) => auth !== "public" || approval === undefined, {
    path: ["approval"],
    error: "needs a user: the method must not be public",
  })
  .refine(knowsItsCaller, KNOWN_CALLER)
  .transform(toPolicy)
  .optional();

export interface MethodPolicy {
  auth: "public" | "authenticated" | { roles: readonly string[] };
  /** All of them. Only with `authenticated`. */
  permissions?: readonly string[];
  action?: string;
  approval?: ApprovalDemand;
  assurance?: RouteAssurance;
}

type WrittenMethod = Access & {
  action?: string | undefined;
  approval?: ApprovalDemand | undefined;
};

function toPolicy({ permissions, roles, auth, action, assurance, approval }: WrittenMethod): MethodPolicy {
  return {
    auth: permissions === undefined ? (auth ?? { roles: roles ?? [] }) : "authenticated",
    ...(permissions && { permissions }),
    ...(action && { action }),
    ...(assurance && { assurance }),
    ...(approval && { approval }),
  };
}

function isWithin(pointer: string, other: string): boolean {
  return pointer === other || pointer.startsWith(`${other}/`);
}

/** A burst of `calls`, refilled over `perSeconds`. */
export interface RateLimit {
  calls: number;
  perSeconds: number;
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
    /** Anonymous calls are not counted. */
    perUser: rateLimitSchema.default(DEFAULT_RATE_LIMITS.perUser),
    /** For an IPv4 address or IPv6 /64, 4 times for a /56 and 16 times for a /48. */
    perAddress: rateLimitSchema.default(DEFAULT_RATE_LIMITS.perAddress),
    /** On public methods it counts only networks without a recent success. */
    total: rateLimitSchema.optional(),
  })
  .default(DEFAULT_RATE_LIMITS);

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

const writtenRoute = z.strictObject({
  /** Matches itself and all paths below. */
  prefix: z
    .string()
    .max(200)
    .regex(/^(?:\/[a-z0-9][a-z0-9-]*)+$/, "must be a path of lower-case segments without a slash at its end")
    .refine((prefix) => !OWN_PATHS.test(prefix), "is a path of the gateway itself"),
  upstream: upstreamUrl.optional(),
  upstreams: z.array(upstreamUrl).min(1, "must name an upstream").max(MAX_UPSTREAMS).optional(),
  stripPrefix: z.boolean().default(false),
  /** The upstream learns who called the gateway, and how: `X-Forwarded-*` and `Forwarded`. */
  forwarded: z.boolean().default(true),
  /** Default for the other time-outs. */
  timeoutMs: timeoutMs.default(DEFAULT_TIMEOUT_MS),
  connectTimeoutMs: timeoutMs.optional(),
  headersTimeoutMs: timeoutMs.optional(),
  idleTimeoutMs: timeoutMs.optional(),
  totalTimeoutMs: timeoutMs.optional(),
  /** Has no default total time-out. */
  streaming: z.boolean().default(false),
  /** Minimum average rate of request and response. 0 disables it. */
  minBodyBytesPerS: z.int().min(0).max(MAX_BYTES_PER_S).default(DEFAULT_MIN_BODY_BYTES_PER_S),
  /** Per user, or per network on public methods, at one gateway. */
  maxOpenPerCaller: z.int().min(1).max(MAX_OPEN).default(DEFAULT_MAX_OPEN_PER_CALLER),
  maxWebSocketsPerCaller: z.int().min(1).max(MAX_OPEN).default(DEFAULT_MAX_WEBSOCKETS_PER_CALLER),
  bodyLimitBytes: z.int().min(0).default(DEFAULT_BODY_LIMIT_BYTES),
  /** `*` alone allows all origins. */
  allowedOrigins: z
    .array(webOrigin)
    .max(100)
    .refine((origins) => origins.length === 1 || !origins.includes("*"), "* must stand alone")
    .default([]),
  allowRequestHeaders: z.array(requestHeader).max(100).default([]),
  allowResponseHeaders: z.array(responseHeader).max(100).default([]),
  /** Trusted: HTML and the like run in the gateway's origin, beside the portal. */
  pages: z.enum(["sandboxed", "trusted"]).default("sandboxed"),
  /** Origin: the upstream's cookies keep their `Path` and `Domain`. */
  cookies: z.enum(["prefix", "origin"]).default("prefix"),
  /** `aud` of a token that only the upstream accepts. Absent: the caller's own token. */
  audience: z.string().refine(isAudience, AUDIENCE_FORM).optional(),
  /** False: the upstream gets no token. */
  passToken: z.boolean().default(true),
  /** An upstream might decode the path twice, or into delimiters. */
  strictPaths: z.boolean().default(true),
  websocket: z.boolean().default(false),
  rateLimit: rateLimits,
  /** Others are answered with 405. GET includes HEAD. */
  methods: z
    .strictObject({ GET: reading, POST: changing, PUT: changing, PATCH: changing, DELETE: changing })
    .refine((methods) => Object.keys(methods).length > 0, "must have a method"),
});

const upstreamRoute = writtenRoute
  .superRefine((route, context) => {
    if (route.websocket && route.methods.GET === undefined) {
      context.addIssue({ code: "custom", path: ["websocket"], message: "needs the method GET" });
    }
    if (route.audience !== undefined && !route.passToken) {
      context.addIssue({ code: "custom", path: ["audience"], message: "is of no use with passToken: false" });
    }
  })
  .check(
    z.refine(hasOneUpstreamKey, {
      path: ["upstream"],
      error: ({ input }) =>
        hasKey(input, "upstream") ? "must not be combined with upstreams" : "is required (or upstreams)",
      when: () => true,
    }),
  )
  .transform(toRoute);

type WrittenRoute = z.output<typeof writtenRoute>;

/** With its defaults, and each time-out. */
export type UpstreamRoute = ReturnType<typeof toRoute>;

function toRoute({ upstream, upstreams, timeoutMs, methods, ...route }: WrittenRoute) {
  const given = Object.entries(methods).filter(([, policy]) => policy !== undefined);
  return {
    ...route,
    upstreams: (upstreams ?? [upstream ?? ""]).map((url) => new URL(url).origin),
    connectTimeoutMs: route.connectTimeoutMs ?? Math.min(timeoutMs, DEFAULT_CONNECT_TIMEOUT_MS),
    headersTimeoutMs: route.headersTimeoutMs ?? timeoutMs,
    idleTimeoutMs: route.idleTimeoutMs ?? timeoutMs,
    totalTimeoutMs: route.totalTimeoutMs ?? (route.streaming ? undefined : defaultTotalMs(route, timeoutMs)),
    methods: Object.fromEntries(given) as Partial<Record<keyof typeof methods, MethodPolicy>>,
  };
}

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

/** @param hosts of the gateway, as in its `ALLOWED_HOSTS`. @throws {ConfigError} naming every problem with its line and key. */
export function parseRoutesFile(text: string, hosts: Iterable<string> = []): UpstreamRoute[] {
  const own = [...hosts].flatMap((host) => [`https://${host}`, `http://${host}`]);
  return parseYamlFile(text, routesFileWithout(own), "the routes file").routes;
}

/** Tokens for the gateway itself are worth as much as the caller's own. */
function routesFileWithout(audiences: readonly string[]) {
  return routesFile.superRefine(({ routes }, context) => {
    for (const [index, { audience }] of routes.entries()) {
      if (audience === undefined || !audiences.some((own) => isSameAudience(own, audience))) continue;
      const message = "is the gateway's own origin, which is the audience of the caller's token";
      context.addIssue({ code: "custom", path: ["routes", index, "audience"], message });
    }
  });
}

function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { pathname, search, hash, username, password } = new URL(text);
  return pathname === "/" && search + hash + username + password === "";
}

/** RFC 6454 §6.2. */
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
