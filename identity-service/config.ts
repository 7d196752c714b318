import { z } from "zod";
import { type AccessFile, accessConfig } from "#access-file/access-file.ts";
import { BreachListError } from "#breach-list/list-format.ts";
import { readListHeader } from "#breach-list/open-breach-list.ts";
import { brandConfig, brandNameSchema } from "#kit/config/brand-config.ts";
import {
  addressSchema,
  booleanSchema,
  ConfigError,
  databaseConfig,
  encryptionKeyFileSchema,
  integerSchema,
  isElsewhere,
  redisConfig,
  redisConfigProblem,
  secretFileSchema,
  serviceConfig,
} from "#kit/config/config.ts";
import { refusedPeopleConfig } from "#kit/rpc/refused-people.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { mailConfig, mailConfigProblems } from "./mail/mail-config.ts";
import { oauthConfig, oauthConfigProblems } from "./oauth/oauth-config.ts";
import { passkeyConfig, passkeyConfigProblems } from "./passkeys/passkey-config.ts";
import { ARGON2_CEILING } from "./passwords/stored-hash.ts";
import { CALLS, CALLS_OF_NETWORK, LOGINS } from "./throttle/throttle.ts";

/** Threads of libuv for DNS lookups and files. */
const SPARE_THREADS = 2;

const originSchema = z.url({ protocol: /^https?$/ }).refine((text) => new URL(text).origin === text, {
  message: "must be scheme://host[:port] and nothing else, in lower case",
  when: ({ value }) => typeof value === "string" && URL.canParse(value),
});

const rolesSchema = z
  .string()
  .transform((text) => (text === "" ? [] : text.split(",").map((name) => name.trim())));

function requiredRolesProblem(
  required: readonly string[] | undefined,
  { roles }: Pick<AccessFile, "roles">,
): string | undefined {
  const isUnknown = (role: string) => !Object.hasOwn(roles, role);
  return required?.some(isUnknown) ? "must be a comma list of roles of the access file" : undefined;
}

/** For a file that has changed. @throws {ConfigError} if the service could not start with it. */
export function assertAccessFits(
  { MFA_REQUIRED_ROLES: required }: Pick<Config, "MFA_REQUIRED_ROLES">,
  access: Pick<AccessFile, "roles">,
): void {
  const problem = requiredRolesProblem(required, access);
  if (problem !== undefined) throw new ConfigError(`MFA_REQUIRED_ROLES: ${problem}`);
}

/** Plain HTTP would expose the start of a password's hash. */
function isPrivateOnTheWay(text: string): boolean {
  return new URL(text).protocol === "https:" || !isElsewhere(text);
}

/** Returns the path. The service verifies the checksum when it opens the list. */
const breachListFileSchema = z.string().transform((path, context) => {
  try {
    readListHeader(path);
  } catch (error) {
    if (!(error instanceof BreachListError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
  }
  return path;
});

export const configSchema = z
  .object({
    ...serviceConfig,
    ...refusedPeopleConfig,
    ...databaseConfig,
    ...accessConfig,
    ...brandConfig,
    ...mailConfig,
    ...oauthConfig,
    ...passkeyConfig,
    ...redisConfig,
    TOKEN_SERVICE_ADDRESS: addressSchema,
    AUDIT_SERVICE_ADDRESS: addressSchema,
    PUBLIC_ORIGIN: originSchema,
    /** Where people are sent: links in mails, callbacks of providers, passkeys. Default: `PUBLIC_ORIGIN`. */
    PAGES_ORIGIN: originSchema.optional(),
    LINK_KEY_FILE: encryptionKeyFileSchema,
    REGISTRATION_DISCLOSES: booleanSchema.default(true),
    LOGIN_REQUIRES_VERIFIED_EMAIL: booleanSchema.default(false),
    /** Whether operators may log in as any user. */
    TEST_LOGINS: booleanSchema.default(false),
    BOOTSTRAP_ADMIN_EMAIL: z
      .string()
      .transform((typed) => canonicalEmail(typed))
      .pipe(z.string("must be an e-mail address"))
      .optional(),
    BOOTSTRAP_ADMIN_PASSWORD_FILE: secretFileSchema.optional(),
    MFA_ENCRYPTION_KEY_FILE: encryptionKeyFileSchema,
    MFA_ENCRYPTION_KEY_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    /** Default: `BRAND_NAME`. */
    MFA_ISSUER: brandNameSchema.optional(),
    /** Comma-separated. */
    MFA_REQUIRED_ROLES: rolesSchema.optional(),
    MFA_CHALLENGE_TTL_S: integerSchema(60, 900).default(300),
    /** Zero: none is trusted. At most the lifetime of the device token. */
    TRUSTED_DEVICE_DAYS: integerSchema(0, 180).default(0),
    ARGON2_MEMORY_KIB: integerSchema(19_456, ARGON2_CEILING.memoryKib).default(19_456),
    ARGON2_ITERATIONS: integerSchema(2, ARGON2_CEILING.iterations).default(2),
    ARGON2_PARALLELISM: integerSchema(1, ARGON2_CEILING.parallelism).default(1),
    /** Read by libuv. */
    UV_THREADPOOL_SIZE: integerSchema(SPARE_THREADS + 1, 1_024).default(4),
    HASH_CONCURRENCY: integerSchema(1, 1_024 - SPARE_THREADS).optional(),
    HASH_QUEUE_MAX: integerSchema(0, 1_024).default(32),
    HASH_QUEUE_WAIT_MS: integerSchema(0, 1_000).default(1_000),
    /** Code points. */
    PASSWORD_MIN_LENGTH: integerSchema(8, 64).default(8),
    PASSWORD_PEPPER_FILE: encryptionKeyFileSchema.optional(),
    PASSWORD_PEPPER_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    /** Receives five characters of the SHA-1. */
    BREACH_LOOKUP_URL: z
      .url({ protocol: /^https?$/ })
      .refine(isPrivateOnTheWay, {
        message: "must be https, or http to a loopback address",
        when: ({ value }) => typeof value === "string" && URL.canParse(value),
      })
      .optional(),
    BREACH_LIST_FILE: breachListFileSchema.optional(),
    BREACH_LIST_MAX_AGE_DAYS: integerSchema(1, 3_650).default(180),
    /** Zero keeps them. */
    APPROVAL_RETENTION_MONTHS: integerSchema(0, 1_200).default(0),
    UNUSED_ACCOUNT_DAYS: integerSchema(0, 3_650).default(90),
    /** The same in every replica. */
    DEVICE_KEY_FILE: encryptionKeyFileSchema,
    THROTTLE_REPLICAS: integerSchema(1, 1_000).default(1),
    /** Failures in 15 minutes. */
    THROTTLE_NETWORK_BUDGET: integerSchema(1, 1_000_000).default(100),
    THROTTLE_GLOBAL_BUDGET: integerSchema(1, 100_000_000).default(50_000),
    /** Calls of one kind in 15 minutes. */
    THROTTLE_CALL_NETWORK_BUDGET: integerSchema(1, 1_000_000).default(CALLS_OF_NETWORK),
    THROTTLE_CALL_GLOBAL_BUDGET: integerSchema(1, 100_000_000).default(CALLS),
    /** Right logins of one account from one place in an hour. */
    THROTTLE_LOGIN_BUDGET: integerSchema(1, 1_000_000).default(LOGINS),
  })
  .superRefine((config, context) => {
    const rolesProblem = requiredRolesProblem(config.MFA_REQUIRED_ROLES, config.ACCESS_FILE.access);
    if (rolesProblem !== undefined) {
      context.addIssue({ code: "custom", path: ["MFA_REQUIRED_ROLES"], message: rolesProblem });
    }
    const redisProblem = redisConfigProblem(config);
    if (redisProblem !== undefined) {
      context.addIssue({ code: "custom", path: ["REDIS_URL"], message: redisProblem });
    }
    const problems = [
      ...mailConfigProblems(config),
      ...oauthConfigProblems(config),
      ...passkeyConfigProblems(config),
    ];
    for (const { key, message } of problems) {
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
    const { LISTEN_ADDRESS: address, PUBLIC_ORIGIN: origin, PAGES_ORIGIN: pages = origin } = config;
    if (config.TEST_LOGINS && [`http://${address}`, origin, pages].some(isElsewhere)) {
      const message =
        "is for tests on one machine: LISTEN_ADDRESS, PUBLIC_ORIGIN and PAGES_ORIGIN must be on loopback";
      context.addIssue({ code: "custom", path: ["TEST_LOGINS"], message });
    }
    if (!config.REGISTRATION_DISCLOSES && !config.LOGIN_REQUIRES_VERIFIED_EMAIL) {
      context.addIssue({
        code: "custom",
        path: ["REGISTRATION_DISCLOSES"],
        message:
          "false needs LOGIN_REQUIRES_VERIFIED_EMAIL=true: a login with the password just registered would reveal whether the address was free",
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
