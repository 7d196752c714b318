import { z } from "zod";
import { addressSchema, processConfig, tlsConfig } from "#kit/config/config.ts";
import { AUDIENCE_FORM, isAudience } from "#kit/values/audience.ts";

export const configSchema = z.object({
  ...processConfig,
  ...tlsConfig,
  /** HTTP, for the gateway only. */
  LISTEN_ADDRESS: addressSchema,
  TOKEN_SERVICE_ADDRESS: addressSchema,
  /** As in the routes file. Without it, tokens for the issuer are accepted. */
  TOKEN_AUDIENCE: z.string().refine(isAudience, AUDIENCE_FORM).optional(),
});
