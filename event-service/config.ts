import { z } from "zod";
import { addressSchema, databaseConfig, encryptionKeyFileSchema, serviceConfig } from "#kit/config/config.ts";
import { refusedPeopleConfig } from "#kit/rpc/refused-people.ts";
import type { ReachableNetwork } from "#outbound-http/outbound-http.ts";

const NETWORKS: readonly ReachableNetwork[] = ["public", "private", "loopback"];

const networksSchema = z.string().transform((text, context) => {
  const names = text.split(",").map((name) => name.trim()) as ReachableNetwork[];
  if (!names.every((name) => NETWORKS.includes(name)))
    context.addIssue({ code: "custom", message: `must be a comma list of ${NETWORKS.join(", ")}` });
  return names;
});

export const configSchema = z.object({
  ...serviceConfig,
  ...refusedPeopleConfig,
  ...databaseConfig,
  AUDIT_SERVICE_ADDRESS: addressSchema,
  /** Writes to the owner of a webhook that was paused. */
  IDENTITY_SERVICE_ADDRESS: addressSchema,
  /** Signs what is told to receivers of Shared Signals. */
  TOKEN_SERVICE_ADDRESS: addressSchema,
  /** `source` of events: the gateway's public origin. */
  PUBLIC_ORIGIN: z.url({ protocol: /^https?$/ }).max(256),
  WEBHOOK_ENCRYPTION_KEY_FILE: encryptionKeyFileSchema,
  WEBHOOK_ENCRYPTION_KEY_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
  /** Which addresses webhooks may have. `loopback` also admits plain HTTP there, for development. */
  WEBHOOK_NETWORKS: networksSchema.default(["public"]),
});
