import { z } from "zod";
import {
  addressSchema,
  databaseConfig,
  encryptionKeyFileSchema,
  privateFileSchema,
  readableFileSchema,
  serviceConfig,
} from "#kit/config/config.ts";
import { refusedPeopleConfig } from "#kit/rpc/refused-people.ts";
import { isAllowedUrl, type ReachableNetwork } from "#outbound-http/outbound-http.ts";
import { readHeadersFile } from "./siem/headers-file.ts";

const NETWORKS: readonly ReachableNetwork[] = ["public", "private", "loopback"];

const networksSchema = z.string().transform((text, context) => {
  const names = text.split(",").map((name) => name.trim()) as ReachableNetwork[];
  if (!names.every((name) => NETWORKS.includes(name)))
    context.addIssue({ code: "custom", message: `must be a comma list of ${NETWORKS.join(", ")}` });
  return names;
});

const collectorUrlSchema = z
  .url()
  .refine((url) => isAllowedUrl(url, NETWORKS), "must be https, or http on 127.0.0.1 or [::1]");

const headersFileSchema = privateFileSchema.refine(
  (path) => {
    try {
      return readHeadersFile(path) !== undefined;
    } catch {
      return false;
    }
  },
  { error: "each line must be a name, a colon and a value" },
);

/** To the operator's SIEM (docs/siem.md). At most one collector of each kind. */
const siemConfig = {
  SIEM_OTLP_URL: collectorUrlSchema.optional(),
  SIEM_OTLP_HEADERS_FILE: headersFileSchema.optional(),
  /** PEM, of all collectors. Defaults to the system's authorities. */
  SIEM_CA_FILE: readableFileSchema.optional(),
  /** Of a receiver of syslog over TLS. */
  SIEM_SYSLOG_ADDRESS: addressSchema.optional(),
  SIEM_SYSLOG_CERT_FILE: readableFileSchema.optional(),
  SIEM_SYSLOG_KEY_FILE: privateFileSchema.optional(),
};

export const configSchema = z
  .object({
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
    ...siemConfig,
  })
  .superRefine((config, context) => {
    if ((config.SIEM_SYSLOG_CERT_FILE === undefined) === (config.SIEM_SYSLOG_KEY_FILE === undefined)) return;
    const message = "SIEM_SYSLOG_CERT_FILE and SIEM_SYSLOG_KEY_FILE go together";
    context.addIssue({ code: "custom", path: ["SIEM_SYSLOG_KEY_FILE"], message });
  });

export type EventConfig = z.output<typeof configSchema>;
