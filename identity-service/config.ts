import { z } from "zod";
import {
  addressSchema,
  databaseConfig,
  integerSchema,
  secretFileSchema,
  serviceConfig,
} from "../service-kit/config.ts";
import { canonicalEmail } from "./canonical-email.ts";
import { mailConfig, mailConfigProblems } from "./mail-config.ts";
import { ARGON2_CEILING } from "./stored-hash.ts";

/** Threads of libuv's pool that hashing leaves to name look-ups and files. */
const SPARE_THREADS = 2;

/** Everything identity-service reads from its environment. */
export const configSchema = z
  .object({
    ...serviceConfig,
    ...databaseConfig,
    ...mailConfig,
    /** gRPC of token-service. */
    TOKEN_SERVICE_ADDRESS: addressSchema,
    /** The first administrator, made at start if there is none. Together with its password file, or not at all. */
    BOOTSTRAP_ADMIN_EMAIL: z
      .string()
      .transform((typed) => canonicalEmail(typed))
      .pipe(z.string("must be an e-mail address"))
      .optional(),
    BOOTSTRAP_ADMIN_PASSWORD_FILE: secretFileSchema.optional(),
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
  })
  .superRefine((config, context) => {
    for (const { key, message } of mailConfigProblems(config)) {
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
