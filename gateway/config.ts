import { readFileSync } from "node:fs";
import { BlockList, isIP } from "node:net";
import { z } from "zod";
import { spoolConfig } from "../audit-client/spool-config.ts";
import { isWebOrigin, parseRoutesFile } from "../routes-file/routes-file.ts";
import {
  addressSchema,
  ConfigError,
  integerSchema,
  processConfig,
  readableFileSchema,
  redisConfig,
  redisConfigProblem,
  tlsConfig,
} from "../service-kit/config.ts";
import { TOKEN_DELIVERIES } from "./auth/oauth-redirect.ts";
import { limitClassesSchema } from "./limits/limit-class.ts";
import { parseIntrospectionClients } from "./services/introspection-clients.ts";

const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?$/;

/** `host[:port]`, comma-separated, as clients write them into `Host`: without the scheme's default port. */
const hostListSchema = z.string().transform((text, context) => {
  const hosts = splitList(text.toLowerCase());
  for (const host of hosts) {
    if (!HOST.test(host))
      context.addIssue({ code: "custom", message: "must be a comma list of host[:port]" });
  }
  if (hosts.length === 0) context.addIssue({ code: "custom", message: "must name at least one host" });
  return new Set(hosts);
});

const TOO_WIDE_OR_MALFORMED = "must be a comma list of CIDR networks, none wider than /8 (IPv6: /16)";

/** Networks as CIDR (`10.0.0.0/8`) or single addresses, comma-separated. */
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
/** Of an IPv4 /8 within `::ffff:0:0/96`. */
const MIN_MAPPED_PREFIX = 96 + MIN_IPV4_PREFIX;

/** Whether a network holds so much of the internet that whoever calls would be believed. */
function isTooWide(address: string, prefix: number): boolean {
  if (isIP(address) === 4) return prefix < MIN_IPV4_PREFIX;
  const network = new BlockList();
  network.addSubnet(address, prefix, "ipv6");
  const mapped = new BlockList();
  mapped.addSubnet("::ffff:0:0", 96, "ipv6");
  const holdsMapped = network.check("::ffff:0:0", "ipv6") || mapped.check(address, "ipv6");
  return prefix < (holdsMapped ? MIN_MAPPED_PREFIX : MIN_IPV6_PREFIX);
}

/** Origins as browsers send them, comma-separated. */
const originListSchema = z.string().transform((text, context) => {
  const origins = splitList(text);
  for (const origin of origins) {
    if (!isWebOrigin(origin)) {
      context.addIssue({ code: "custom", message: "must be a comma list of scheme://host[:port]" });
    }
  }
  return new Set(origins);
});

/** What a file says. What is wrong with it is a problem of the variable. */
function fileSchema<T>(read: (text: string, path: string) => T) {
  return readableFileSchema.transform((path, context) => {
    try {
      return read(readFileSync(path, "utf8"), path);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      context.addIssue({ code: "custom", message: error.message });
      return z.NEVER;
    }
  });
}

/** Everything the gateway reads from its environment. */
export const configSchema = z
  .object({
    ...processConfig,
    ...tlsConfig,
    ...spoolConfig,
    /** HTTP for clients. TLS ends at the balancer in front. */
    LISTEN_ADDRESS: addressSchema,
    IDENTITY_SERVICE_ADDRESS: addressSchema,
    TOKEN_SERVICE_ADDRESS: addressSchema,
    AUDIT_SERVICE_ADDRESS: addressSchema,
    /** YAML: the upstream APIs and who may call them. */
    // With its path, because it is read again when it changes.
    ROUTES_FILE: fileSchema((text, path) => ({ path, text, routes: parseRoutesFile(text) })),
    /** YAML or JSON: the services that may introspect tokens (RFC 7662). Unset: nobody, the path is 404. */
    INTROSPECTION_CLIENTS_FILE: fileSchema(parseIntrospectionClients).optional(),
    /** How tokens come back from a login at an identity provider. `query` is unsafe: docs/providers.md says why. */
    OAUTH_TOKEN_DELIVERY: z.enum(TOKEN_DELIVERIES).default("fragment"),
    /** The names this gateway serves; a request with another `Host` is misdirected. */
    ALLOWED_HOSTS: hostListSchema,
    /** Proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Request-Id` are believed. None unless told. */
    TRUSTED_PROXIES: networkListSchema.default(() => new BlockList()),
    /** Open client connections; more are closed at once. */
    MAX_CONNECTIONS: integerSchema(1, 100_000).default(10_000),
    /** Of these, of one client network (IPv4 address or IPv6 /64); trusted proxies have no limit of their own. */
    MAX_CONNECTIONS_PER_ADDRESS: integerSchema(1, 100_000).default(1_000),
    /** Open WebSockets; one more is answered 503. */
    MAX_WEBSOCKETS: integerSchema(0, 100_000).default(1_000),
    /** Verified tokens kept in memory, about 1 KiB each; one that is not among them is a call to token-service. */
    VERIFIED_TOKENS_MAX: integerSchema(1, 5_000_000).default(50_000),
    /** Web pages whose scripts may call the gateway's own paths, as origins. For proxied paths: the routes file. */
    ALLOWED_ORIGINS: originListSchema.optional(),
    /** REDIS_URL lets gateways count calls together. Unset: each for itself, with its share of the limits. */
    ...redisConfig,
    /** Gateways: each gets its share of the rate limits while they cannot count together. */
    RATE_LIMIT_REPLICAS: integerSchema(1, 1_000).default(1),
    /** Changes to the rate limits of the gateway's own paths. For proxied paths: the routes file. */
    RATE_LIMITS: limitClassesSchema.optional(),
  })
  .superRefine((config, context) => {
    const message = redisConfigProblem(config);
    if (message !== undefined) context.addIssue({ code: "custom", path: ["REDIS_URL"], message });
  });
export type Config = z.infer<typeof configSchema>;
