import { z } from "zod";
import {
  databaseConfig,
  integerSchema,
  Secret,
  secretFileSchema,
  serviceConfig,
} from "#kit/config/config.ts";
import { refusedPeopleConfig } from "#kit/rpc/refused-people.ts";
import { parseCheckpointKey } from "./log/checkpoint.ts";
import { logsFileSchema } from "./logs/logs-file.ts";

const checkpointKeyFileSchema = secretFileSchema.transform((pem, context) => {
  const key = parseCheckpointKey(pem.reveal());
  if (key !== undefined) return new Secret(key);
  context.addIssue({ code: "custom", message: "the file must hold an Ed25519 private key (PEM, PKCS#8)" });
  return z.NEVER;
});

export const configSchema = z.object({
  ...serviceConfig,
  ...refusedPeopleConfig,
  ...databaseConfig,
  LOGS_FILE: logsFileSchema,
  /** The same for every replica. Must not be stored beside the database. */
  CHECKPOINT_KEY_FILE: checkpointKeyFileSchema,
  /** The name of log 0. That of log 1 is this and `/1`. */
  CHECKPOINT_ORIGIN: z
    .string()
    .max(128)
    .regex(/^[a-z0-9.-]+(\/[A-Za-z0-9._-]+)+$/, "must be like gatehouse.example/audit"),
  /** Preferably on another system. */
  CHECKPOINT_FILE: z.string().min(1).optional(),
  /** Full months besides the current one. 0 keeps everything. */
  AUDIT_RETENTION_MONTHS: integerSchema(0, 1_200).default(0),
  /** Producers must be gone this long before their open intents are closed. */
  AUDIT_CLOSE_INTENTS_AFTER_S: integerSchema(10, 86_400).default(60),
});
export type AuditConfig = z.output<typeof configSchema>;
