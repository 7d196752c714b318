import { isAbsolute } from "node:path";
import { z } from "zod";
import { addressSchema, integerSchema, tlsConfig } from "../../service-kit/config.ts";

/** What `drain-spool` reads from its environment: of the gateway's configuration, and how long it tries. */
export const drainConfigSchema = z.object({
  ...tlsConfig,
  AUDIT_SERVICE_ADDRESS: addressSchema,
  AUDIT_SPOOL_DIRECTORY: z.string().refine(isAbsolute, "must be an absolute path"),
  /** Then the program says what is left, and ends with 1. */
  DRAIN_TIMEOUT_S: integerSchema(1, 86_400).default(300),
});
