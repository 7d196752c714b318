import { isAbsolute } from "node:path";
import { z } from "zod";
import { integerSchema } from "../service-kit/config.ts";

const MIB = 1024 * 1024;

/** The spool, for a service whose calls wait for the audit log. */
export const spoolConfig = {
  /** A directory on a local disk; processes of one host may share it. Unset: no spool. */
  AUDIT_SPOOL_DIRECTORY: z.string().refine(isAbsolute, "must be an absolute path").optional(),
  /** At least what a full queue in memory may need. */
  AUDIT_SPOOL_MAX_BYTES: integerSchema(64 * MIB, 64 * 1024 * MIB).default(256 * MIB),
};
