import { fileURLToPath } from "node:url";
import { z } from "zod";
import {
  addressSchema,
  databaseConfig,
  encryptionKeyFileSchema,
  integerSchema,
  privateFileSchema,
  readableFileSchema,
  serviceConfig,
} from "#kit/config/config.ts";
import { refusedPeopleConfig } from "#kit/rpc/refused-people.ts";
import { isAllowedUrl, type ReachableNetwork } from "#outbound-http/outbound-http.ts";
import { readHeadersFile } from "./siem/headers-file.ts";
import { readCredentials } from "./siem/segment-bucket.ts";

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

const readableBy = (read: (path: string) => unknown, error: string) =>
  privateFileSchema.refine(
    (path) => {
      try {
        return read(path) !== undefined;
      } catch {
        return false;
      }
    },
    { error },
  );

const headersFileSchema = readableBy(readHeadersFile, "each line must be a name, a colon and a value");
const credentialsFileSchema = readableBy(
  readCredentials,
  "must have lines aws_access_key_id = … and aws_secret_access_key = …",
);

const BUCKET = /^s3:\/\/([a-z\d][a-z\d.-]{1,61}[a-z\d](?:\/(?!\.{1,2}(?:\/|$))[\w.-]+)*)\/?$/;

const segmentsUrlSchema = z.string().transform((text, context) => {
  const path = BUCKET.exec(text)?.[1];
  if (path !== undefined) return { kind: "bucket" as const, path };
  if (/^file:\/\/\/[^?#]+$/.test(text) && URL.canParse(text))
    return { kind: "folder" as const, path: fileURLToPath(text) };
  context.addIssue({ code: "custom", message: "must be file:///folder or s3://bucket/prefix" });
  return z.NEVER;
});

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
  SIEM_SEGMENTS_URL: segmentsUrlSchema.optional(),
  /** Entries wait at most so long for a segment. */
  SIEM_SEGMENT_SECONDS: integerSchema(1, 86_400).default(300),
  /** Without the bucket. Defaults to AWS in the region. */
  SIEM_S3_ENDPOINT: collectorUrlSchema.optional(),
  SIEM_S3_REGION: z
    .string()
    .regex(/^[a-z\d-]{1,64}$/)
    .default("us-east-1"),
  SIEM_S3_CREDENTIALS_FILE: credentialsFileSchema.optional(),
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
  })
  .refine(
    (config) => config.SIEM_SEGMENTS_URL?.kind !== "bucket" || config.SIEM_S3_CREDENTIALS_FILE !== undefined,
    { path: ["SIEM_S3_CREDENTIALS_FILE"], error: "a bucket needs credentials" },
  );

export type EventConfig = z.output<typeof configSchema>;
