import { z } from "zod";
import { databasesFileSchema, furtherDatabase, withRoleOf } from "#kit/config/databases-file.ts";

/** Beside part 0, which is `DATABASE_URL`'s. */
const partDatabase = z.strictObject({
  number: z.int().min(1).max(63),
  ...furtherDatabase,
  /** Its `search_path`. Undefined: as the database has it. */
  schema: z
    .string()
    .regex(/^[a-z_][a-z0-9_]{0,62}$/, "must be a schema's name of a-z, 0-9 and _")
    .optional(),
});
export type PartDatabase = z.output<typeof partDatabase>;

/** The file that `PARTS_FILE` names. */
export const partsFileSchema = databasesFileSchema("parts", partDatabase);

/** `DATABASE_URL` and the run-time parameters of a part, with the role of the first one. */
export function partConnection(databaseUrl: string, { number, url, schema }: PartDatabase) {
  return {
    url: withRoleOf(databaseUrl, url),
    session: { "gatehouse.part": number, ...(schema !== undefined && { search_path: schema }) },
  };
}
