import { z } from "zod";
import { databaseConfig, serviceConfig } from "../service-kit/config.ts";

/** Everything audit-service reads from its environment. */
export const configSchema = z.object({
  ...serviceConfig,
  ...databaseConfig,
});
