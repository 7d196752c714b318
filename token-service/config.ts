import { z } from "zod";
import {
  addressSchema,
  databaseConfig,
  encryptionKeyFileSchema,
  integerSchema,
  redisConfig,
  redisConfigProblem,
  serviceConfig,
} from "../service-kit/config.ts";
import { MAX_ACCESS_TTL_S } from "./token-lifetimes.ts";

/** Everything that token-service reads from its environment. Durations carry their unit. */
export const configSchema = z
  .object({
    ...serviceConfig,
    ...databaseConfig,
    /** Takes the events that token-service writes into the audit log. */
    AUDIT_SERVICE_ADDRESS: addressSchema,
    /** Tells users by mail when a refresh token of theirs was used twice. */
    IDENTITY_SERVICE_ADDRESS: addressSchema,
    /** `iss` and `aud` of access tokens: the gateway's public origin. */
    TOKEN_ISSUER: z.url({ protocol: /^https?$/ }),
    /** Encrypts private signing keys in the database: 32 random bytes, base64. */
    KEY_ENCRYPTION_KEY_FILE: encryptionKeyFileSchema,
    /** The key before the present one, while keys encrypted with it exist. */
    KEY_ENCRYPTION_KEY_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    /** Of keys made from now on. */
    SIGNING_ALGORITHM: z.enum(["EdDSA", "ES256"]).default("EdDSA"),
    /** The active key is rotated when it is older. */
    SIGNING_KEY_MAX_AGE_S: integerSchema(3_600, 31_536_000).default(2_592_000),
    /** How long readers may keep the key set; a key is published twice as long before it signs. */
    JWKS_MAX_AGE_S: integerSchema(1, 86_400).default(300),
    ACCESS_TOKEN_TTL_S: integerSchema(30, MAX_ACCESS_TTL_S).default(900),
    REFRESH_IDLE_TTL_S: integerSchema(60, 31_536_000).default(604_800),
    SESSION_ABSOLUTE_TTL_S: integerSchema(60, 31_536_000).default(2_592_000),
    /** How long after a rotation its predecessor gets the same successor although that was seen in use. 0: strict. */
    REFRESH_GRACE_S: integerSchema(0, 60).default(10),
    MAX_SESSIONS_PER_USER: integerSchema(1, 20).default(20),
    /** Names of the services that may verify tokens: the SPIFFE names in their certificates. */
    VERIFIERS: z
      .string()
      .default("gateway,identity-service,audit-service,payments-service")
      .transform((text) => text.split(",").map((name) => name.trim())),
    /** Names of the Envoys that may ask for external authorization, likewise. */
    ENVOYS: z
      .string()
      .default("envoy")
      .transform((text) => text.split(",").map((name) => name.trim())),
    /** Verified tokens kept in memory. */
    VERIFIED_TOKENS_MAX: integerSchema(0, 1_000_000).default(20_000),
    /** REDIS_URL wakes the other replicas when a revocation commits. Unset: only for a single replica; others follow by polling. */
    ...redisConfig,
  })
  .superRefine((config, context) => {
    const message = redisConfigProblem(config);
    if (message !== undefined) context.addIssue({ code: "custom", path: ["REDIS_URL"], message });
  });

export type Config = z.output<typeof configSchema>;
