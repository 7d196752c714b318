import { z } from "zod";
import { addressSchema, processConfig, tlsConfig } from "../../service-kit/config.ts";

export const configSchema = z.object({
  ...processConfig,
  ...tlsConfig,
  /** HTTP, for the gateway only. */
  LISTEN_ADDRESS: addressSchema,
  TOKEN_SERVICE_ADDRESS: addressSchema,
});
