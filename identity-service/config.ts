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

/** Threads of libuv's pool that hashing leaves to name look-ups and files. */
const SPARE_THREADS = 2;

/** An origin without path, query or user, as `URL` writes it. */
const originSchema = z.url({ protocol: /^https?$/ }).refine((text) => new URL(text).origin === text, {
  message: "must be scheme://host[:port] and nothing else, in lower case",
  when: ({ value }) => typeof value === "string" && URL.canParse(value),
});

/** Over plain HTTP the start of a password's hash could be read, and the answer forged. */
function isPrivateOnTheWay(text: string): boolean {
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || ["127.0.0.1", "[::1]", "localhost"].includes(hostname);
}

/** Everything identity-service reads from its environment. */
export const configSchema = z
  .object({
    ...serviceConfig,
    ...databaseConfig,
    ...mailConfig,
    ...oauthConfig,
    /** REDIS_URL lets replicas count failed logins together. Unset: each for itself, with its share of the limits. */
    ...redisConfig,
    /** gRPC of token-service. */
    TOKEN_SERVICE_ADDRESS: addressSchema,
    /** gRPC of audit-service. */
    AUDIT_SERVICE_ADDRESS: addressSchema,
    /** `scheme://host[:port]` of the gateway as users see it: the origin of the links in mails. */
    PUBLIC_ORIGIN: originSchema,
    /** Makes the tokens of the links in mails: 32 random bytes, base64. */
    LINK_KEY_FILE: encryptionKeyFileSchema,
    /**
     * False: neither a registration nor a login after it says whether the address had an account; its owner gets a mail.
     * Needs LOGIN_REQUIRES_VERIFIED_EMAIL.
     */
    REGISTRATION_DISCLOSES: booleanSchema.default(true),
    /** True: nobody logs in with an address that is not proven. */
    LOGIN_REQUIRES_VERIFIED_EMAIL: booleanSchema.default(false),
    /** The first administrator, made at start if there is none. Together with its password file, or not at all. */
    BOOTSTRAP_ADMIN_EMAIL: z
      .string()
      .transform((typed) => canonicalEmail(typed))
      .pipe(z.string("must be an e-mail address"))
      .optional(),
    BOOTSTRAP_ADMIN_PASSWORD_FILE: secretFileSchema.optional(),
    /** Encrypts TOTP secrets in the database: 32 random bytes, base64. */
    MFA_ENCRYPTION_KEY_FILE: encryptionKeyFileSchema,
    /** Another key that secrets may be encrypted with. They are encrypted anew in the background. */
    MFA_ENCRYPTION_KEY_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    /** What authenticator apps show beside the user's address. */
    MFA_ISSUER: z
      .string()
      .regex(
        /^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,63}$/u,
        "must be 1 to 64 letters, digits, spaces, dots and dashes",
      )
      .default("Gatehouse"),
    /** How long a login waits for the code of the second factor. */
    MFA_CHALLENGE_TTL_S: integerSchema(60, 900).default(300),
    /** argon2id `m`, in KiB. Stored hashes that cost less are renewed at login. */
    ARGON2_MEMORY_KIB: integerSchema(19_456, ARGON2_CEILING.memoryKib).default(19_456),
    /** argon2id `t`. */
    ARGON2_ITERATIONS: integerSchema(2, ARGON2_CEILING.iterations).default(2),
    /** argon2id `p`. */
    ARGON2_PARALLELISM: integerSchema(1, ARGON2_CEILING.parallelism).default(1),
    /** Read by libuv itself; here so that HASH_CONCURRENCY can be held to it. */
    UV_THREADPOOL_SIZE: integerSchema(SPARE_THREADS + 1, 1_024).default(4),
    /** Password hashes computed at once. Default: a core each, but two threads of UV_THREADPOOL_SIZE stay free. */
    HASH_CONCURRENCY: integerSchema(1, 1_024 - SPARE_THREADS).optional(),
    /** Password hashes that may wait; beyond: busy. */
    HASH_QUEUE_MAX: integerSchema(0, 1_024).default(32),
    /** How long one may wait; beyond, or when the call's own deadline is near: busy. */
    HASH_QUEUE_WAIT_MS: integerSchema(0, 1_000).default(1_000),
    /** In code points. */
    PASSWORD_MIN_LENGTH: integerSchema(8, 64).default(8),
    /** Goes into new password hashes, and must not be lost: 32 random bytes, base64. Unset: none does. */
    PASSWORD_PEPPER_FILE: encryptionKeyFileSchema.optional(),
    /** The pepper before the present one, while hashes have it. They are renewed at login. */
    PASSWORD_PEPPER_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    /** Range endpoint of known breaches; five characters of a new password's SHA-1 are appended. Unset: none is asked. */
    BREACH_LOOKUP_URL: z
      .url({ protocol: /^https?$/ })
      .refine(isPrivateOnTheWay, {
        message: "must be https, or http to this machine",
        when: ({ value }) => typeof value === "string" && URL.canParse(value),
      })
      .optional(),
    /** Accounts that nobody has proven, or logged in to, are deleted when they are so old. 0: never. */
    UNUSED_ACCOUNT_DAYS: integerSchema(0, 3_650).default(90),
    /** Proves that a device is known: 32 random bytes, base64, the same in every replica. */
    DEVICE_KEY_FILE: encryptionKeyFileSchema,
    /** Replicas of this service: each gets its share of the limits while they cannot count together. */
    THROTTLE_REPLICAS: integerSchema(1, 1_000).default(1),
    /** Failed logins from one network (an IPv4 address, an IPv6 /64) in 15 minutes. */
    THROTTLE_NETWORK_BUDGET: integerSchema(1, 1_000_000).default(100),
    /** Failed logins in all in 15 minutes. */
    THROTTLE_GLOBAL_BUDGET: integerSchema(1, 100_000_000).default(50_000),
    /** Calls of one kind (registration, each mail asked for, reset) from one network in 15 minutes. */
    THROTTLE_CALL_NETWORK_BUDGET: integerSchema(1, 1_000_000).default(CALLS_OF_NETWORK),
    /** Calls of one kind in all in 15 minutes. */
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

/** @param cores that this process may use. */
export function hashConcurrency(
  config: Pick<Config, "HASH_CONCURRENCY" | "UV_THREADPOOL_SIZE">,
  cores: number,
): number {
  return config.HASH_CONCURRENCY ?? Math.min(cores, config.UV_THREADPOOL_SIZE - SPARE_THREADS);
}
