import { z } from "zod";
import { readableFileSchema } from "#kit/config/config.ts";
import { databaseHosts } from "#kit/config/database-hosts.ts";
import { parsedFile, parseYamlFile } from "#kit/config/yaml-file.ts";

/** Beside part 0, which is `DATABASE_URL`'s. */
export interface PartDatabase {
  number: number;
  /** `postgres://host:port/database`. */
  url: string;
  /** Its `search_path`. Undefined: as the database has it. */
  schema?: string | undefined;
}

const MAX_NUMBER = 63;
/** Each has a pool, and a loop that reads it. */
const MAX_PARTS = 16;

const part = z.strictObject({
  number: z.int().min(1).max(MAX_NUMBER),
  url: z
    .string()
    .refine(
      (text) => databaseHosts(text)?.every(({ username, password }) => username + password === "") === true,
      "must be postgres://host:port/database: role and password are those of DATABASE_URL",
    ),
  schema: z
    .string()
    .regex(/^[a-z_][a-z0-9_]{0,62}$/, "must be a schema's name of a-z, 0-9 and _")
    .optional(),
});

const partsFile = z.strictObject({
  parts: z
    .array(part)
    .max(MAX_PARTS)
    .refine(
      (parts) => new Set(parts.map(({ number }) => number)).size === parts.length,
      "a number is there twice",
    )
    .refine(
      (parts) => new Set(parts.map(({ url, schema }) => `${url} ${schema}`)).size === parts.length,
      "a database is there twice",
    ),
});

/** Of the variable `PARTS_FILE`. */
export const partsFileSchema = readableFileSchema.transform(parsedFile(parsePartsFile)).optional();

/** @throws {ConfigError} naming every problem with its line and key. */
function parsePartsFile(text: string): PartDatabase[] {
  return parseYamlFile(text, partsFile, "the file of parts").parts;
}

/** `DATABASE_URL` and the run-time parameters of a part, with the role of the first one. */
export function partConnection(databaseUrl: string, { number, url, schema }: PartDatabase) {
  const [first] = databaseHosts(databaseUrl) ?? [];
  return {
    url: url.replace("://", `://${first?.username ?? ""}@`),
    session: { "gatehouse.part": number, ...(schema !== undefined && { search_path: schema }) },
  };
}
