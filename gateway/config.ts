import { readFileSync } from "node:fs";
import { BlockList, isIP } from "node:net";
import { z } from "zod";
import { accessConfig } from "#access-file/access-file.ts";
import { spoolConfig, spoolConfigProblem } from "#audit-client/spool/audit-spool.ts";
import { brandConfig, linkSchema } from "#kit/config/brand-config.ts";
import {
  addressSchema,
  booleanSchema,
  ConfigError,
  integerSchema,
  processConfig,
  readableFileSchema,
  redisConfig,
  redisConfigProblem,
  tlsConfig,
} from "#kit/config/config.ts";
import { builtInLanguages, type PageLanguage, PageLanguages } from "#kit/config/page-languages.ts";
import { parsedFile } from "#kit/config/yaml-file.ts";
import { CALL_BUDGET_MS } from "#kit/rpc/call-context.ts";
import { assuranceSchema, isWebOrigin, parseRoutesFile } from "#routes-file/routes-file.ts";
import { TOKEN_DELIVERIES } from "./auth/oauth-redirect.ts";
import { parseReturnTarget } from "./auth/return-to.ts";
import { isAllowedHost, normalAuthority } from "./edge/proofs/authority.ts";
import { limitClassesSchema } from "./limits/limit-class.ts";
import { parseIntrospectionClients } from "./oauth-server/introspection-clients.ts";
import { type BrandLogo, parseBrandLogo } from "./pages/brand-logo.ts";
import { colorsOf, contrastProblems, parseBrandStyle } from "./pages/brand-style.ts";
import type { PageLink } from "./pages/index-page.ts";
import { loadWebPages, type WebPages } from "./pages/web-pages.ts";

const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?$/;

/** Comma-separated `host[:port]` as in `Host`, without the scheme's default port. */
const hostListSchema = z.string().transform((text, context) => {
  const hosts = splitList(text).map((host) => normalAuthority(host, ""));
  for (const host of hosts) {
    if (!HOST.test(host))
      context.addIssue({ code: "custom", message: "must be a comma list of host[:port]" });
  }
  if (hosts.length === 0) context.addIssue({ code: "custom", message: "must name at least one host" });
  return new Set(hosts);
});

/** Comma-separated. */
const logListSchema = z
  .string()
  .default("0")
  .transform((text, context) => {
    const entries = splitList(text);
    const logs = new Set(entries.filter((entry) => /^\d{1,3}$/.test(entry)).map(Number));
    if (logs.size === 0 || logs.size < entries.length || Math.max(...logs) > 255) {
      context.addIssue({ code: "custom", message: "must be a comma list of distinct numbers from 0 to 255" });
    }
    return [...logs];
  });

const TOO_WIDE_OR_MALFORMED = "must be a comma list of CIDR networks, none wider than /8 (IPv6: /16)";

/** Comma-separated CIDR networks or addresses. */
const networkListSchema = z.string().transform((text, context) => {
  const networks = new BlockList();
  for (const entry of splitList(text)) {
    if (!addNetwork(networks, entry)) {
      context.addIssue({ code: "custom", message: TOO_WIDE_OR_MALFORMED });
    }
  }
  return networks;
});

function splitList(text: string): string[] {
  return text
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

function addNetwork(networks: BlockList, entry: string): boolean {
  const [address = "", length, ...rest] = entry.split("/");
  const version = isIP(address);
  const maximum = version === 6 ? 128 : 32;
  const prefix = length === undefined ? maximum : Number(length);
  const isLength = length === undefined || /^\d{1,3}$/.test(length);
  if (version === 0 || rest.length > 0 || !isLength || prefix > maximum) return false;
  if (isTooWide(address, prefix)) return false;
  networks.addSubnet(address, prefix, version === 6 ? "ipv6" : "ipv4");
  return true;
}

const MIN_IPV4_PREFIX = 8;
const MIN_IPV6_PREFIX = 16;
/** An IPv4 /8 within `::ffff:0:0/96`. */
const MIN_MAPPED_PREFIX = 96 + MIN_IPV4_PREFIX;

/** A wide network would trust most of the internet. */
function isTooWide(address: string, prefix: number): boolean {
  if (isIP(address) === 4) return prefix < MIN_IPV4_PREFIX;
  const network = new BlockList();
  network.addSubnet(address, prefix, "ipv6");
  const mapped = new BlockList();
  mapped.addSubnet("::ffff:0:0", 96, "ipv6");
  const holdsMapped = network.check("::ffff:0:0", "ipv6") || mapped.check(address, "ipv6");
  return prefix < (holdsMapped ? MIN_MAPPED_PREFIX : MIN_IPV6_PREFIX);
}

/** Comma-separated. */
const originListSchema = z.string().transform((text, context) => {
  const origins = splitList(text);
  for (const origin of origins) {
    if (!isWebOrigin(origin)) {
      context.addIssue({ code: "custom", message: "must be a comma list of scheme://host[:port]" });
    }
  }
  return new Set(origins);
});

/** `2` or `2:900`: a level of assurance, and the greatest age of its proof in seconds. */
const assuranceTextSchema = z
  .string()
  .regex(/^[123](?::\d{1,9})?$/, "must be like 2 or 2:900")
  .transform((text): unknown => {
    const [acr, maxAgeSeconds] = text.split(":").map(Number);
    return { acr, maxAgeSeconds };
  })
  .pipe(assuranceSchema);

function webPagesOf(web: "on" | "off", context: z.RefinementCtx): WebPages[] {
  if (web === "off") return [];
  try {
    return loadWebPages();
  } catch (error) {
    context.addIssue({ code: "custom", message: configProblem(error) });
    return z.NEVER;
  }
}

function brandLogoOf(path: string, context: z.RefinementCtx): BrandLogo {
  try {
    return parseBrandLogo(readFileSync(path));
  } catch (error) {
    context.addIssue({ code: "custom", message: configProblem(error) });
    return z.NEVER;
  }
}

/** Without built pages there is none: `WEB` says so. */
function pageLanguagesOf(folder: string | undefined, context: z.RefinementCtx): PageLanguage[] {
  try {
    const languages = new PageLanguages(builtInLanguages(), folder);
    for (const message of languages.problems) context.addIssue({ code: "custom", message });
    return languages.problems.length === 0 ? languages.all : z.NEVER;
  } catch (error) {
    if (folder === undefined && error instanceof ConfigError) return [];
    context.addIssue({ code: "custom", message: configProblem(error) });
    return z.NEVER;
  }
}

/** `Mailbox=https://mail.example,Wallet=/wallet`. */
const pageLinksSchema = z.string().transform((text, context) =>
  splitList(text).map((entry): PageLink => {
    const [, name = "", url = ""] = /^([^=<>]{1,40})=((?:https?:\/)?\/[\x21-\x7e]{0,500})$/.exec(entry) ?? [];
    if (url === "")
      context.addIssue({
        code: "custom",
        message: "must be a comma list of name=https://address or name=/path",
      });
    return { name, url };
  }),
);

/** `Shop=https://shop.example/,https://bank.example/app/`. */
const returnTargetsSchema = z.string().transform((text, context) =>
  splitList(text).flatMap((entry) => {
    const target = parseReturnTarget(entry);
    if (target === undefined)
      context.addIssue({
        code: "custom",
        message: "must be a comma list of https://host[:port][/path], each with name= before it or without",
      });
    return target ?? [];
  }),
);

function isAllowedOrigin(origin: string, hosts: ReadonlySet<string>): boolean {
  const { host, protocol } = new URL(origin);
  return isAllowedHost(hosts, host, protocol.slice(0, -1));
}

function configProblem(error: unknown): string {
  if (error instanceof ConfigError) return error.message;
  throw error;
}

export const configSchema = z
  .object({
    ...processConfig,
    ...tlsConfig,
    ...spoolConfig,
    ...accessConfig,
    ...brandConfig,
    /** HTTP for clients. The load balancer terminates TLS. */
    LISTEN_ADDRESS: addressSchema,
    IDENTITY_SERVICE_ADDRESS: addressSchema,
    TOKEN_SERVICE_ADDRESS: addressSchema,
    AUDIT_SERVICE_ADDRESS: addressSchema,
    EVENT_SERVICE_ADDRESS: addressSchema,
    /** Numbers of the audit logs that it writes to. */
    AUDIT_LOGS: logListSchema,
    /** YAML: upstream APIs and their access rules. */
    // The file is read again when it changes.
    ROUTES_FILE: readableFileSchema.transform(
      parsedFile((text, path) => ({ path, text, routes: parseRoutesFile(text) })),
    ),
    /** YAML or JSON: services that may introspect tokens (RFC 7662). Without it the path is 404. */
    INTROSPECTION_CLIENTS_FILE: readableFileSchema
      .transform(parsedFile(parseIntrospectionClients))
      .optional(),
    /** `query` is unsafe, see docs/providers.md. */
    OAUTH_TOKEN_DELIVERY: z.enum(TOKEN_DELIVERIES).default("fragment"),
    /** Of calls under `/admin`. */
    ADMIN_ASSURANCE: assuranceTextSchema.optional(),
    /** Requests with another `Host` are refused. */
    ALLOWED_HOSTS: hostListSchema,
    /** Of the pages. On other allowed hosts, browsers are sent there. */
    PUBLIC_ORIGIN: z
      .string()
      .refine(isWebOrigin, { error: "must be scheme://host[:port]", abort: true })
      .optional(),
    /** A host of their own for the pages: no route of the routes file is served there, and no page anywhere else. */
    PAGES_ORIGIN: z
      .string()
      .refine(isWebOrigin, { error: "must be scheme://host[:port]", abort: true })
      .optional(),
    /** Their `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Request-Id` and `Client-Cert` are trusted. */
    TRUSTED_PROXIES: networkListSchema.default(() => new BlockList()),
    /** Of clients, to the certificate in `Client-Cert`. */
    CERTIFICATE_BOUND_TOKENS: booleanSchema.default(false),
    /** Binds browser sessions to a key of the device, where the browser can. */
    DEVICE_BOUND_SESSIONS: booleanSchema.default(false),
    CALL_BUDGET_MS: integerSchema(500, 10_000).default(CALL_BUDGET_MS),
    /** Further ones are closed at once. */
    MAX_CONNECTIONS: integerSchema(1, 100_000).default(10_000),
    /** Per IPv4 address or IPv6 /64. Trusted proxies are exempt. */
    MAX_CONNECTIONS_PER_ADDRESS: integerSchema(1, 100_000).default(1_000),
    /** Further ones are answered with 503. */
    MAX_WEBSOCKETS: integerSchema(0, 100_000).default(1_000),
    /** Size of the token cache, about 1 KiB each. */
    VERIFIED_TOKENS_MAX: integerSchema(1, 5_000_000).default(50_000),
    /** Origins for own paths. The routes file covers proxied paths. */
    ALLOWED_ORIGINS: originListSchema.optional(),
    /** Enables shared rate limits. Without it each gateway applies its share. */
    ...redisConfig,
    /** Number of gateways, for the share of each. */
    RATE_LIMIT_REPLICAS: integerSchema(1, 1_000).default(1),
    /** The pages of `web/`. */
    WEB: z.enum(["on", "off"]).default("on").transform(webPagesOf),
    /** Custom properties of the pages. */
    BRAND_STYLE_FILE: readableFileSchema.transform(parsedFile(parseBrandStyle)).optional(),
    /** An SVG or PNG image, which is shown beside the name. */
    BRAND_LOGO_FILE: readableFileSchema.transform(brandLogoOf).optional(),
    /** Further languages of the pages, and texts in place of built-in ones. */
    PAGE_LANGUAGES_DIR: z.string().optional().transform(pageLanguagesOf),
    PRIVACY_URL: linkSchema(/^https?$/).optional(),
    TERMS_URL: linkSchema(/^https?$/).optional(),
    /** Shown at `/`; one that is named `Mailbox` also after a registration. */
    WEB_LINKS: pageLinksSchema.optional(),
    /** Applications to which the portal may send a person back. */
    PORTAL_RETURN_TO: returnTargetsSchema.optional(),
    /** For own paths. */
    RATE_LIMITS: limitClassesSchema.optional(),
    /** Of the class `login`. */
    STRANGER_LOGINS_AT_ONCE: integerSchema(1, 10_000).default(64),
  })
  .superRefine((config, context) => {
    const message = redisConfigProblem(config);
    if (message !== undefined) context.addIssue({ code: "custom", path: ["REDIS_URL"], message });
    const spoolMessage = spoolConfigProblem(config, config.AUDIT_LOGS.length);
    if (spoolMessage !== undefined)
      context.addIssue({ code: "custom", path: ["AUDIT_SPOOL_MAX_BYTES"], message: spoolMessage });
    const { ROUTES_FILE: file, ALLOWED_HOSTS: hosts } = config;
    for (const name of ["PUBLIC_ORIGIN", "PAGES_ORIGIN"] as const) {
      const origin = config[name];
      if (origin === undefined || isAllowedOrigin(origin, hosts)) continue;
      context.addIssue({ code: "custom", path: [name], message: "is none of ALLOWED_HOSTS" });
    }
    if (config.PAGES_ORIGIN !== undefined && config.PAGES_ORIGIN === config.PUBLIC_ORIGIN) {
      const message = "is PUBLIC_ORIGIN, where the routes are served";
      context.addIssue({ code: "custom", path: ["PAGES_ORIGIN"], message });
    }
    for (const message of contrastProblems(colorsOf(config.BRAND_COLOR, config.BRAND_STYLE_FILE)))
      context.addIssue({ code: "custom", path: ["BRAND_STYLE_FILE"], message });
    try {
      // The hosts decide which audiences are the gateway's own.
      parseRoutesFile(file.text, hosts);
    } catch (error) {
      context.addIssue({ code: "custom", path: ["ROUTES_FILE"], message: configProblem(error) });
    }
  });
export type Config = z.infer<typeof configSchema>;
