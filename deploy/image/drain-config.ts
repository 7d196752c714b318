import { isAbsolute } from "node:path";
import { z } from "zod";
import { addressSchema, integerSchema, tlsConfig } from "#kit/config/config.ts";

/** Part of the gateway's configuration, and a timeout. */
export const drainConfigSchema = z.object({
  ...tlsConfig,
  AUDIT_SERVICE_ADDRESS: addressSchema,
  AUDIT_SPOOL_DIRECTORY: z.string().refine(isAbsolute, "must be an absolute path"),
  /** After this the program prints what is unsent and exits with 1. */
  DRAIN_TIMEOUT_S: integerSchema(1, 86_400).default(300),
});
