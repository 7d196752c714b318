import { z } from "zod";
import { canonicalEmail } from "../service-kit/canonical-email.ts";
import {
  addressSchema,
  booleanSchema,
  databaseConfig,
  encryptionKeyFileSchema,
  integerSchema,
  redisConfig,
  redisConfigProblem,
  secretFileSchema,
  serviceConfig,
} from "../service-kit/config.ts";
import { mailConfig, mailConfigProblems } from "./mail/mail-config.ts";
import { oauthConfig, oauthConfigProblems } from "./oauth/oauth-config.ts";
import { ARGON2_CEILING } from "./passwords/stored-hash.ts";
import { CALLS, CALLS_OF_NETWORK } from "./throttle/throttle.ts";

/** Threads of the libuv pool reserved for DNS lookups and files. */
const SPARE_THREADS = 2;

const originSchema = z.url({ protocol: /^https?$/ }).refine((text) => new URL(text).origin === text, {
  message: "must be scheme://host[:port] and nothing else, in lower case",
  when: ({ value }) => typeof value === "string" && URL.canParse(value),
});

/** Plain HTTP would expose the start of a password's hash. */
function isPrivateOnTheWay(text: string): boolean {
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || ["127.0.0.1", "[::1]", "localhost"].includes(hostname);
}

export const configSchema = z
  .object({
    ...serviceConfig,
    ...databaseConfig,
    ...mailConfig,
    ...oauthConfig,
    /** Without REDIS_URL, each replica counts failed logins alone with its share of the limits. */
    ...redisConfig,
    TOKEN_SERVICE_ADDRESS: addressSchema,
    AUDIT_SERVICE_ADDRESS: addressSchema,
    /** `scheme://host[:port]` of the gateway for users. Links in mails begin with it. */
    PUBLIC_ORIGIN: originSchema,
    /** Derives link tokens. 32 random bytes, base64. */
    LINK_KEY_FILE: encryptionKeyFileSchema,
    /** False hides whether an address has an account. Needs LOGIN_REQUIRES_VERIFIED_EMAIL. */
    REGISTRATION_DISCLOSES: booleanSchema.default(true),
    LOGIN_REQUIRES_VERIFIED_EMAIL: booleanSchema.default(false),
    /** Created at startup if there is no administrator. Needs the password file. */
    BOOTSTRAP_ADMIN_EMAIL: z
      .string()
      .transform((typed) => canonicalEmail(typed))
      .pipe(z.string("must be an e-mail address"))
      .optional(),
    BOOTSTRAP_ADMIN_PASSWORD_FILE: secretFileSchema.optional(),
    /** Encrypts TOTP secrets. 32 random bytes, base64. */
    MFA_ENCRYPTION_KEY_FILE: encryptionKeyFileSchema,
    /** The earlier key, during rotation. Secrets are re-encrypted in the background. */
    MFA_ENCRYPTION_KEY_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    MFA_ISSUER: z
      .string()
      .regex(
        /^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,63}$/u,
        "must be 1 to 64 letters, digits, spaces, dots and dashes",
      )
      .default("Gatehouse"),
    MFA_CHALLENGE_TTL_S: integerSchema(60, 900).default(300),
    /** Argon2id `m`, in KiB. Cheaper stored hashes are renewed at login. */
    ARGON2_MEMORY_KIB: integerSchema(19_456, ARGON2_CEILING.memoryKib).default(19_456),
    ARGON2_ITERATIONS: integerSchema(2, ARGON2_CEILING.iterations).default(2),
    ARGON2_PARALLELISM: integerSchema(1, ARGON2_CEILING.parallelism).default(1),
    /** Read by libuv; checked here against HASH_CONCURRENCY. */
    UV_THREADPOOL_SIZE: integerSchema(SPARE_THREADS + 1, 1_024).default(4),
    /** Default: one per core, with two threads of UV_THREADPOOL_SIZE left free. */
    HASH_CONCURRENCY: integerSchema(1, 1_024 - SPARE_THREADS).optional(),
    HASH_QUEUE_MAX: integerSchema(0, 1_024).default(32),
    HASH_QUEUE_WAIT_MS: integerSchema(0, 1_000).default(1_000),
    /** Code points. */
    PASSWORD_MIN_LENGTH: integerSchema(8, 64).default(8),
    /** Key of new password hashes, 32 random bytes, base64. A lost pepper makes the hashes useless. Optional. */
    PASSWORD_PEPPER_FILE: encryptionKeyFileSchema.optional(),
    /** The earlier pepper, during rotation. Hashes are renewed at login. */
    PASSWORD_PEPPER_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    /** Range API of known breaches. Receives five characters of the SHA-1. */
    BREACH_LOOKUP_URL: z
      .url({ protocol: /^https?$/ })
      .refine(isPrivateOnTheWay, {
        message: "must be https, or http to this machine",
        when: ({ value }) => typeof value === "string" && URL.canParse(value),
      })
      .optional(),
    /** Unverified, unused accounts of this age are deleted. Zero disables the deletion. */
    UNUSED_ACCOUNT_DAYS: integerSchema(0, 3_650).default(90),
    /** Signs device tokens. 32 random bytes, base64, the same in every replica. */
    DEVICE_KEY_FILE: encryptionKeyFileSchema,
    /** Divides the limits while replicas cannot count together. */
    THROTTLE_REPLICAS: integerSchema(1, 1_000).default(1),
    /** Failed logins in 15 minutes. A network is an IPv4 address or an IPv6 /64. */
    THROTTLE_NETWORK_BUDGET: integerSchema(1, 1_000_000).default(100),
    THROTTLE_GLOBAL_BUDGET: integerSchema(1, 100_000_000).default(50_000),
    /** Calls of one kind (registration, requested mail, reset) in 15 minutes. */
    THROTTLE_CALL_NETWORK_BUDGET: integerSchema(1, 1_000_000).default(CALLS_OF_NETWORK),
    THROTTLE_CALL_GLOBAL_BUDGET: integerSchema(1, 100_000_000).default(CALLS),
  })
  .superRefine((config, context) => {
    const redisProblem = redisConfigProblem(config);
    if (redisProblem !== undefined) {
      context.addIssue({ code: "custom", path: ["REDIS_URL"], message: redisProblem });
    }
    for (const { key, message } of [...mailConfigProblems(config), ...oauthConfigProblems(config)]) {
      context.addIssue({ code: "custom", path: [key], message });
    }
    if (
      (config.BOOTSTRAP_ADMIN_EMAIL === undefined) !==
      (config.BOOTSTRAP_ADMIN_PASSWORD_FILE === undefined)
    ) {
      const path =
        config.BOOTSTRAP_ADMIN_EMAIL === undefined
          ? "BOOTSTRAP_ADMIN_EMAIL"
          : "BOOTSTRAP_ADMIN_PASSWORD_FILE";
      context.addIssue({ code: "custom", path: [path], message: "is required beside its counterpart" });
    }
    if (!config.REGISTRATION_DISCLOSES && !config.LOGIN_REQUIRES_VERIFIED_EMAIL) {
      context.addIssue({
        code: "custom",
        path: ["REGISTRATION_DISCLOSES"],
        message:
          "false needs LOGIN_REQUIRES_VERIFIED_EMAIL=true: a login with the password just registered would tell whether the address was free",
      });
    }
    if ((config.HASH_CONCURRENCY ?? 1) > config.UV_THREADPOOL_SIZE - SPARE_THREADS) {
      context.addIssue({
        code: "custom",
        path: ["HASH_CONCURRENCY"],
        message: `must be at most UV_THREADPOOL_SIZE - ${SPARE_THREADS}`,
      });
    }
  });
export type Config = z.infer<typeof configSchema>;

export function hashConcurrency(
  config: Pick<Config, "HASH_CONCURRENCY" | "UV_THREADPOOL_SIZE">,
  cores: number,
): number {
  return config.HASH_CONCURRENCY ?? Math.min(cores, config.UV_THREADPOOL_SIZE - SPARE_THREADS);
}
