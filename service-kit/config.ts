import { z } from "zod";
import { parseEncryptionKey } from "./key-cipher.ts";
import { isLoopback } from "./loopback.ts";
import { type FileContent, readAnyFile, readPrivateFile, secretProblem } from "./secret-file.ts";

/** BSD `EX_CONFIG`: the process cannot run with this configuration, so restarting it is no help. */
export const EXIT_CONFIG = 78;

/** A configuration that cannot be used. The message lists every problem, a line each, never a value. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** Text that must not be printed: its string, JSON and inspect forms are `[redacted]`. */
export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  /** The value itself, for the one place that needs it. */
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

/**
 * Reads a configuration from environment variables.
 *
 * @throws {ConfigError} naming every variable that is missing or wrong.
 */
export function parseConfig<S extends z.ZodObject>(
  schema: S,
  environment: Record<string, string | undefined>,
): z.output<S> {
  // An empty variable means "not set": compose files and manifests cannot express absence.
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

/** A line for each secret that is another's, too: whoever learns one of them must not have both. */
function sharedSecrets(config: Record<string, unknown>): string[] {
  const seen = new Map<string, string>();
  return Object.entries(config).flatMap(([key, value]) => {
    const secret = secretOf(value);
    if (secret === undefined) return [];
    const other = seen.get(secret);
    seen.set(secret, key);
    // The same key as the one before it is for the same purpose.
    const isSamePurpose = other?.replace("_PREVIOUS", "") === key.replace("_PREVIOUS", "");
    return other === undefined || isSamePurpose ? [] : [`  ${key}: holds the same secret as ${other}`];
  });
}

/** A line for each server on another host that would be spoken to in plaintext, unless that is said to be wanted. */
function unencryptedConnections(config: Record<string, unknown>): string[] {
  const lines: string[] = [];
  if (
    config.DATABASE_CA_FILE === undefined &&
    isElsewhere(config.DATABASE_URL) &&
    config.DATABASE_PLAINTEXT !== true
  )
    lines.push(
      "  DATABASE_URL: is another host: set DATABASE_CA_FILE, or DATABASE_PLAINTEXT=true to do without TLS",
    );
  const isRedisPlain = typeof config.REDIS_URL === "string" && config.REDIS_URL.startsWith("redis:");
  if (isRedisPlain && isElsewhere(config.REDIS_URL) && config.REDIS_PLAINTEXT !== true)
    lines.push(
      "  REDIS_URL: is another host: make it rediss://, or set REDIS_PLAINTEXT=true to do without TLS",
    );
  return lines;
}

/** Whether a URL leads away from this host. */
function isElsewhere(url: unknown): boolean {
  if (typeof url !== "string") return false;
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "");
  return host !== "localhost" && !isLoopback(host);
}

/** The text of a secret file; undefined for any other value. */
function secretOf(value: unknown): string | undefined {
  if (value instanceof Secret) {
    const secret: unknown = value.reveal();
    return typeof secret === "string" ? secret : undefined;
  }
  const isKey =
    typeof value === "object" && value !== null && "bytes" in value && Buffer.isBuffer(value.bytes);
  return isKey ? (value.bytes as Buffer).toString("base64") : undefined;
}

/** Of a `main.ts`: only say whether it could start with this configuration, and end. */
const CHECK_OPTION = "--check-config";

/**
 * For the first line of a `main.ts`: the configuration, or its problems on standard error and exit 78. With
 * `--check-config` the process ends in either case, before it has opened anything.
 */
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

/** The first version in which a server decides which upgrades it takes: before it, every request for one skips its body. */
const MIN_NODE = [24, 9] as const;

/** @throws {ConfigError} if the process would run without what its safety rests on. */
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

/** `host:port`, port 0 to 65535. IPv6 hosts in brackets. */
export const addressSchema = z
  .string()
  .regex(/^(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, "must be host:port")
  .refine((text) => Number(text.slice(text.lastIndexOf(":") + 1)) <= 65_535, "the port is above 65535");

/** Splits what `addressSchema` accepted. */
export function splitAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(address.slice(colon + 1)) };
}

/** A whole number within bounds, from text. */
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

/** A file that exists and can be read now; gives its path, for files that are re-read when they change. */
export const readableFileSchema = z.string().transform((path, context) => {
  return bytesOf(readAnyFile(path), context) === undefined ? z.NEVER : path;
});

/** The same for a private key: refused if others may read it. */
export const privateFileSchema = z.string().transform((path, context) => {
  return bytesOf(readPrivateFile(path), context) === undefined ? z.NEVER : path;
});

/**
 * A file with a secret in it; gives its text without the final line break. Refused if others may read it, and if it holds
 * nothing, or an example.
 */
export const secretFileSchema = z.string().transform((path, context) => {
  const text = bytesOf(readPrivateFile(path), context)?.toString("utf8").trimEnd();
  if (text === undefined) return z.NEVER;
  const problem = secretProblem(text);
  if (problem === undefined) return new Secret(text);
  context.addIssue({ code: "custom", message: problem });
  return z.NEVER;
});

/** A file with a key-encryption key in it: 32 random bytes in base64. */
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

/** What every process reads. */
export const processConfig = {
  LOG_LEVEL: z.enum(LOG_LEVELS).default("info"),
  /** Plain HTTP for operators and probes: /healthz, /readyz, /metrics. Never exposed to clients. */
  OPERATIONS_ADDRESS: addressSchema,
  /** How long open calls may take to end after SIGTERM. */
  SHUTDOWN_GRACE_MS: integerSchema(0, 60_000).default(5_000),
  /** How long to go on serving, unready, after SIGTERM, until load balancers have noticed. */
  DRAIN_DELAY_MS: integerSchema(0, 60_000).default(0),
  /** Base URL of an OpenTelemetry collector (OTLP over HTTP); `/v1/traces` is put behind it. No traces if unset. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  /** Share of the traces that are kept, 0 to 1. The gateway decides; the services follow. */
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(?:0|1|0?\.\d+|1\.0+)$/, "must be a number from 0 to 1")
    .transform(Number)
    .default(1),
};

/** The process's certificate: its identity is the `spiffe://gatehouse/<name>` URI in it. */
export const tlsConfig = {
  TLS_CERT_FILE: readableFileSchema,
  TLS_KEY_FILE: privateFileSchema,
  TLS_CA_FILE: readableFileSchema,
};

/** What a gRPC service reads besides. */
export const serviceConfig = {
  ...processConfig,
  ...tlsConfig,
  /** gRPC over mutual TLS. */
  LISTEN_ADDRESS: addressSchema,
  /** `grpc.health.v1` in plaintext, for Kubernetes' probes, which speak no TLS. */
  HEALTH_ADDRESS: addressSchema,
};

/** What a process with a database reads. */
export const databaseConfig = {
  /** `postgres://role@host:port/database`, without the password. */
  DATABASE_URL: z
    .url({ protocol: /^postgres(ql)?$/ })
    .refine(
      (text) => URL.canParse(text) && new URL(text).password === "",
      "put the password into DATABASE_PASSWORD_FILE",
    ),
  DATABASE_PASSWORD_FILE: secretFileSchema,
  /** CA of the server's certificate; turns on TLS with full verification. */
  DATABASE_CA_FILE: readableFileSchema.optional(),
  /** Allows a database on another host without TLS: the network between must keep others from reading and writing. */
  DATABASE_PLAINTEXT: booleanSchema.default(false),
  DATABASE_POOL_SIZE: integerSchema(1, 100).default(10),
};

/** What a process with Redis reads. Refuse `redisConfigProblem` in its schema, too. */
export const redisConfig = {
  /** `redis://[user@]host[:port]`, or `rediss://` for TLS, without the password. */
  REDIS_URL: z
    .url({ protocol: /^rediss?$/ })
    .refine(
      (text) => URL.canParse(text) && new URL(text).password === "",
      "put the password into REDIS_PASSWORD_FILE",
    )
    .optional(),
  REDIS_PASSWORD_FILE: secretFileSchema.optional(),
  /** CA of the server's certificate, for `rediss://`. The system's authorities if unset. */
  REDIS_CA_FILE: readableFileSchema.optional(),
  /** Allows Redis on another host without TLS. */
  REDIS_PLAINTEXT: booleanSchema.default(false),
};

/** What is wrong with REDIS_URL beside the other settings; undefined if nothing is. */
export function redisConfigProblem(config: z.output<z.ZodObject<typeof redisConfig>>): string | undefined {
  const isEncrypted = config.REDIS_URL?.startsWith("rediss:") === true;
  if (config.REDIS_CA_FILE === undefined || isEncrypted) return undefined;
  return "must be rediss:// when REDIS_CA_FILE is set: otherwise nothing is encrypted";
}
