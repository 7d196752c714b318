import { z } from "zod";
import {
  addressSchema,
  databaseConfig,
  encryptionKeyFileSchema,
  integerSchema,
  redisConfig,
  redisConfigProblem,
  serviceConfig,
} from "#kit/config/config.ts";
import { refusedPeopleConfig } from "#kit/rpc/refused-people.ts";
import { isServiceName } from "#kit/rpc/rpc-tls.ts";
import { partsFileSchema } from "./parts/parts-file.ts";
import { MAX_ACCESS_TTL_S } from "./revocations/token-lifetimes.ts";

/** Comma-separated, as in certificates: `spiffe://gatehouse/<name>`. */
const serviceNamesSchema = z.string().transform((text, context) => {
  const names = text.split(",").map((name) => name.trim());
  if (!names.every(isServiceName)) {
    const message = "must be a comma list of services' names as in spiffe://gatehouse/<name>: a-z, 0-9 and -";
    context.addIssue({ code: "custom", message });
  }
  return names;
});

export const configSchema = z
  .object({
    ...serviceConfig,
    ...refusedPeopleConfig,
    ...databaseConfig,
    /** YAML: databases of further parts of the users (docs/operations/past-one-postgres.md). */
    PARTS_FILE: partsFileSchema,
    AUDIT_SERVICE_ADDRESS: addressSchema,
    /** Notifies users of refresh token reuse. */
    IDENTITY_SERVICE_ADDRESS: addressSchema,
    /** `iss` and `aud`: the gateway's public origin. */
    /** Beside 2,000 characters of permissions it fits into a token. */
    TOKEN_ISSUER: z.url({ protocol: /^https?$/ }).max(256),
    KEY_ENCRYPTION_KEY_FILE: encryptionKeyFileSchema,
    KEY_ENCRYPTION_KEY_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
    SIGNING_ALGORITHM: z.enum(["EdDSA", "ES256"]).default("EdDSA"),
    SIGNING_KEY_MAX_AGE_S: integerSchema(3_600, 31_536_000).default(2_592_000),
    /** Readers may cache the key set this long. A key is published twice as long before it signs. */
    JWKS_MAX_AGE_S: integerSchema(1, 86_400).default(300),
    ACCESS_TOKEN_TTL_S: integerSchema(30, MAX_ACCESS_TTL_S).default(900),
    REFRESH_IDLE_TTL_S: integerSchema(60, 31_536_000).default(604_800),
    SESSION_ABSOLUTE_TTL_S: integerSchema(60, 31_536_000).default(2_592_000),
    /** The parent token gets the same successor this long after a rotation, even a used one. 0: strict. */
    REFRESH_GRACE_S: integerSchema(0, 60).default(10),
    MAX_SESSIONS_PER_USER: integerSchema(1, 20).default(20),
    /** Beside our own services, which are always admitted: a list cannot shut them out. */
    VERIFIERS: serviceNamesSchema.optional(),
    ENVOYS: serviceNamesSchema.optional(),
    VERIFIED_TOKENS_MAX: integerSchema(0, 1_000_000).default(20_000),
    /** Without Redis replicas only poll. */
    ...redisConfig,
  })
  .superRefine((config, context) => {
    const message = redisConfigProblem(config);
    if (message !== undefined) context.addIssue({ code: "custom", path: ["REDIS_URL"], message });
  });

export type Config = z.output<typeof configSchema>;
