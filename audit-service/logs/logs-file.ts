import { z } from "zod";
import { databasesFileSchema, furtherDatabase } from "#kit/config/databases-file.ts";

/** The last byte of a producer's id. */
const MAX_NUMBER = 255;

/** The variable `LOGS_FILE` names the logs beside log 0, which is `DATABASE_URL`'s. */
export const logsFileSchema = databasesFileSchema(
  "logs",
  z.strictObject({ number: z.int().min(1).max(MAX_NUMBER), ...furtherDatabase }),
);
