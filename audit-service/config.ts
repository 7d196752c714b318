import { z } from "zod";
import {
  databaseConfig,
  integerSchema,
  Secret,
  secretFileSchema,
  serviceConfig,
} from "../service-kit/config.ts";
import { parseCheckpointKey } from "./log/checkpoint.ts";

/** Ed25519 private key as PEM (PKCS#8). */
const checkpointKeyFileSchema = secretFileSchema.transform((pem, context) => {
  const key = parseCheckpointKey(pem.reveal());
  if (key !== undefined) return new Secret(key);
  context.addIssue({ code: "custom", message: "the file must hold an Ed25519 private key (PEM, PKCS#8)" });
  return z.NEVER;
});

/** Everything audit-service reads from its environment. */
export const configSchema = z.object({
  ...serviceConfig,
  ...databaseConfig,
  /** Signs checkpoints; the same for every replica, and nowhere near the database. */
  CHECKPOINT_KEY_FILE: checkpointKeyFileSchema,
  /** The log's name, for ever: the first line of every checkpoint. */
  CHECKPOINT_ORIGIN: z
    .string()
    .max(128)
    .regex(/^[a-z0-9.-]+(\/[A-Za-z0-9._-]+)+$/, "must be like gatehouse.example/audit"),
  /** Where checkpoints are appended, best on another system's mount. */
  CHECKPOINT_FILE: z.string().min(1).optional(),
  /** Full months that stay beside the current one; 0 keeps everything. */
  AUDIT_RETENTION_MONTHS: integerSchema(0, 1_200).default(0),
  /** How long a producer must be gone before its intents without outcome are closed as `unknown`. */
  AUDIT_CLOSE_INTENTS_AFTER_S: integerSchema(10, 86_400).default(60),
});
