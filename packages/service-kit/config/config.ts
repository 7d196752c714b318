import { z } from "zod";
import { parseEncryptionKey } from "../values/key-cipher.ts";
import { isThisHost } from "../values/network-of.ts";
import { databaseHosts } from "./database-hosts.ts";
import { parseRedisUrl } from "./redis-url.ts";
import { type FileContent, readAnyFile, readPrivateFile, secretProblem } from "./secret-file.ts";

/** BSD `EX_CONFIG`: a restart does not help. */
export const EXIT_CONFIG = 78;

/** Lists every problem, without values. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  reveal(): T {
    return this.#value;
  }

  toString(): string {
    return "[redacted]";
  }

  toJSON(): string {
    return "[redacted]";
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return "[redacted]";
  }
}

/** @throws {ConfigError} naming every invalid variable. */
export function parseConfig<S extends z.ZodObject>(
  schema: S,
  environment: Record<string, string | undefined>,
): z.output<S> {
  // Compose files and manifests cannot express absence.
  const given = Object.keys(schema.shape).flatMap((key) =>
    environment[key] === undefined || environment[key] === "" ? [] : [[key, environment[key]]],
  );
  const result = schema.safeParse(Object.fromEntries(given));
  const lines = result.success
    ? [...sharedSecrets(result.data), ...unencryptedConnections(result.data)]
    : result.error.issues.map((issue) => `  ${issue.path.join(".") || "(all)"}: ${describe(issue)}`);
  if (result.success && lines.length === 0) return result.data;
  throw new ConfigError(`The configuration cannot be used:\n${lines.join("\n")}`);
}

/** A leak would disclose both. */
function sharedSecrets(config: Record<string, unknown>): string[] {
  const seen = new Map<string, string>();
  return Object.entries(config).flatMap(([key, value]) => {
    const secret = secretOf(value);
    if (secret === undefined) return [];
    const other = seen.get(secret);
    seen.set(secret, key);
    const isSamePurpose = other?.replace("_PREVIOUS", "") === key.replace("_PREVIOUS", "");
    return other === undefined || isSamePurpose ? [] : [`  ${key}: holds the same secret as ${other}`];
  });
}

function unencryptedConnections(config: Record<string, unknown>): string[] {
  const isPlain = config.DATABASE_CA_FILE === undefined && config.DATABASE_PLAINTEXT !== true;
  const databases: Record<string, unknown> = {
    DATABASE_URL: [{ url: config.DATABASE_URL }],
    PARTS_FILE: config.PARTS_FILE,
    LOGS_FILE: config.LOGS_FILE,
  };
  const lines = Object.entries(databases)
    .filter(([, listed]) => isPlain && Array.isArray(listed) && listed.some(isElsewhereDatabase))
    .map(
      ([name]) =>
        `  ${name}: names another host: set DATABASE_CA_FILE, or DATABASE_PLAINTEXT=true to allow plaintext`,
    );
  const redis = typeof config.REDIS_URL === "string" ? parseRedisUrl(config.REDIS_URL) : undefined;
  if (redis === undefined || redis.isEncrypted || config.REDIS_PLAINTEXT === true) return lines;
  if (redis.primaryName !== undefined)
    lines.push(
      "  REDIS_URL: sentinels may name any host: use rediss+sentinel://, or set REDIS_PLAINTEXT=true to allow plaintext",
    );
  else if (!isThisHost(redis.hosts[0].host))
    lines.push(
      "  REDIS_URL: names another host: use rediss://, or set REDIS_PLAINTEXT=true to allow plaintext",
    );
  return lines;
}

function isElsewhereDatabase({ url }: { url?: unknown }): boolean {
  return typeof url === "string" && databaseHosts(url)?.some(({ href }) => isElsewhere(href)) === true;
}

/** Whether a URL names another host than this one. */
export function isElsewhere(url: string): boolean {
  return !isThisHost(new URL(url).hostname);
}

function secretOf(value: unknown): string | undefined {
  if (value instanceof Secret) {
    const secret: unknown = value.reveal();
    return typeof secret === "string" ? secret : undefined;
  }
  const isKey =
    typeof value === "object" && value !== null && "bytes" in value && Buffer.isBuffer(value.bytes);
  return isKey ? (value.bytes as Buffer).toString("base64") : undefined;
}

const CHECK_OPTION = "--check-config";

/** With `--check-config` it always exits. */
export function loadConfig<S extends z.ZodObject>(
  schema: S,
  environment: Record<string, string | undefined>,
): z.output<S> {
  try {
    assertRuntime(process.versions.node, environment);
    const config = parseConfig(schema, environment);
    if (process.argv.includes(CHECK_OPTION)) process.exit(0);
    return config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(EXIT_CONFIG);
  }
}

/** Earlier versions ignore the body of every upgrade request. */
const MIN_NODE = [24, 9] as const;

/** @throws {ConfigError} for an old Node.js or disabled certificate verification. */
export function assertRuntime(version: string, environment: Record<string, string | undefined>): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < MIN_NODE[0] || (major === MIN_NODE[0] && minor < MIN_NODE[1])) {
    throw new ConfigError(`Node.js ${MIN_NODE.join(".")} or newer is needed; this is ${version}`);
  }
  if (environment.NODE_TLS_REJECT_UNAUTHORIZED === "0") {
    throw new ConfigError(
      "NODE_TLS_REJECT_UNAUTHORIZED: 0 would accept any certificate of any peer; unset it",
    );
  }
}

function describe(issue: z.core.$ZodIssue): string {
  const missing = issue.code === "invalid_type" && issue.message.endsWith("received undefined");
  return missing ? "is required" : issue.message;
}

export const addressSchema = z
  .string()
  .regex(/^(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, "must be host:port")
  .refine((text) => Number(text.slice(text.lastIndexOf(":") + 1)) <= 65_535, "the port is above 65535");

export function splitAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(address.slice(colon + 1)) };
}

export function integerSchema(minimum: number, maximum: number) {
  return z
    .string()
    .regex(/^-?\d+$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(minimum).max(maximum));
}

export const booleanSchema = z
  .enum(["true", "false"], "must be true or false")
  .transform((text) => text === "true");

/** Returns the path, because the file is read again. */
export const readableFileSchema = z.string().transform((path, context) => {
  return bytesOf(readAnyFile(path), context) === undefined ? z.NEVER : path;
});

export const privateFileSchema = z.string().transform((path, context) => {
  return bytesOf(readPrivateFile(path), context) === undefined ? z.NEVER : path;
});

export const secretFileSchema = z.string().transform((path, context) => {
  const text = bytesOf(readPrivateFile(path), context)?.toString("utf8").trimEnd();
  if (text === undefined) return z.NEVER;
  const problem = secretProblem(text);
  if (problem === undefined) return new Secret(text);
  context.addIssue({ code: "custom", message: problem });
  return z.NEVER;
});

/** 32 random bytes in base64. */
export const encryptionKeyFileSchema = secretFileSchema.transform((secret, context) => {
  const key = parseEncryptionKey(secret.reveal());
  if (key !== undefined) return key;
  context.addIssue({ code: "custom", message: "the file must hold 32 random bytes in base64" });
  return z.NEVER;
});

function bytesOf({ bytes, problem }: FileContent, context: z.RefinementCtx): Buffer | undefined {
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
  return bytes;
}

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

export const processConfig = {
  LOG_LEVEL: z.enum(LOG_LEVELS).default("info"),
  /** Plain HTTP. Never exposed to clients. */
  OPERATIONS_ADDRESS: addressSchema,
  /** For open calls after SIGTERM. */
  SHUTDOWN_GRACE_MS: integerSchema(0, 60_000).default(5_000),
  /** Time to serve as unready, until load balancers react. */
  DRAIN_DELAY_MS: integerSchema(0, 60_000).default(0),
  /** An OpenTelemetry collector (OTLP over HTTP). `/v1/traces` is appended. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  /** Share of sampled traces, 0 to 1, which the gateway decides. */
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(?:0|1|0?\.\d+|1\.0+)$/, "must be a number from 0 to 1")
    .transform(Number)
    .default(1),
};

/** The identity is the certificate's `spiffe://gatehouse/<name>` URI. */
export const tlsConfig = {
  TLS_CERT_FILE: readableFileSchema,
  TLS_KEY_FILE: privateFileSchema,
  TLS_CA_FILE: readableFileSchema,
};

export type ProcessConfig = z.output<z.ZodObject<typeof processConfig & typeof tlsConfig>>;

export const serviceConfig = {
  ...processConfig,
  ...tlsConfig,
  LISTEN_ADDRESS: addressSchema,
  /** Serves `grpc.health.v1` in plaintext. */
  HEALTH_ADDRESS: addressSchema,
  /** gRPC server reflection, for operators only. */
  GRPC_REFLECTION: booleanSchema.default(false),
};

export type ServiceConfig = z.output<z.ZodObject<typeof serviceConfig>>;

export const databaseConfig = {
  /** `postgres://role@host:port/database`, without the password. Several hosts are separated by commas. */
  DATABASE_URL: z
    .string()
    .refine((text) => databaseHosts(text) !== undefined, {
      message:
        "must be postgres://role@host:port/database, or with up to eight host:port, separated by commas",
      abort: true,
    })
    .refine(
      (text) => databaseHosts(text)?.every(({ password }) => password === ""),
      "put the password into DATABASE_PASSWORD_FILE",
    ),
  DATABASE_PASSWORD_FILE: secretFileSchema,
  /** PEM. Enables TLS with full verification. */
  DATABASE_CA_FILE: readableFileSchema.optional(),
  /** Only for a trusted network. */
  DATABASE_PLAINTEXT: booleanSchema.default(false),
  /** Of sessions: it takes settings as statements only. */
  DATABASE_POOLER: booleanSchema.default(false),
  DATABASE_POOL_SIZE: integerSchema(1, 100).default(10),
};

/** The schema must also check `redisConfigProblem`. */
export const redisConfig = {
  /** See `parseRedisUrl`. `rediss` for TLS, without the password. */
  REDIS_URL: z
    .string()
    .refine((text) => parseRedisUrl(text) !== undefined, {
      message:
        "must be redis://host:port or rediss://host:port, or redis+sentinel://host:port,host:port/name or " +
        "rediss+sentinel:// with up to nine sentinels and the name of the primary",
      abort: true,
    })
    .refine((text) => parseRedisUrl(text)?.hasPassword === false, "put the password into REDIS_PASSWORD_FILE")
    .optional(),
  REDIS_PASSWORD_FILE: secretFileSchema.optional(),
  /** Of the sentinels. */
  REDIS_SENTINEL_PASSWORD_FILE: secretFileSchema.optional(),
  /** PEM, for `rediss://`. Defaults to the system's authorities. */
  REDIS_CA_FILE: readableFileSchema.optional(),
  REDIS_PLAINTEXT: booleanSchema.default(false),
};

export type RedisConfig = z.output<z.ZodObject<typeof redisConfig>>;

export function redisConfigProblem(config: RedisConfig): string | undefined {
  const target = parseRedisUrl(config.REDIS_URL ?? "");
  if (config.REDIS_CA_FILE !== undefined && target?.isEncrypted !== true)
    return "must be rediss:// or rediss+sentinel:// when REDIS_CA_FILE is set: otherwise nothing is encrypted";
  if (config.REDIS_SENTINEL_PASSWORD_FILE !== undefined && target?.primaryName === undefined)
    return "must name sentinels when REDIS_SENTINEL_PASSWORD_FILE is set";
  return undefined;
}
