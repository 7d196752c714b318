import { z } from "zod";
import { readableFileSchema } from "./config.ts";
import { databaseHosts } from "./database-hosts.ts";
import { parsedFile, parseYamlFile } from "./yaml-file.ts";

/** Each has a pool, and a loop that works on it. */
const MAX_DATABASES = 16;

/** Members of a database beside that of `DATABASE_URL`, with the same role and password. */
export const furtherDatabase = {
  /** `postgres://host:port/database`. */
  url: z
    .string()
    .refine(
      (text) => databaseHosts(text)?.every(({ username, password }) => username + password === "") === true,
      "must be postgres://host:port/database: role and password are those of DATABASE_URL",
    ),
};

/**
 * Of a variable that names a YAML file with one list. @param key of the list, in the plural: `parts`.
 * The file's errors name every problem with its line and key.
 */
export function databasesFileSchema<T extends { number: number; url: string; schema?: string | undefined }>(
  key: string,
  database: z.ZodType<T>,
) {
  const databases = z
    .array(database)
    .max(MAX_DATABASES)
    .refine(
      (listed) => new Set(listed.map(({ number }) => number)).size === listed.length,
      "a number is there twice",
    )
    .refine(
      (listed) => new Set(listed.map(({ url, schema }) => `${url} ${schema}`)).size === listed.length,
      "a database is there twice",
    );
  const file = z.strictObject({ [key]: databases });
  const parse = (text: string): T[] => parseYamlFile(text, file, `the file of ${key}`)[key] as T[];
  return readableFileSchema.transform(parsedFile(parse)).optional();
}

/** The URL of a further database, with the role of the first one. */
export function withRoleOf(databaseUrl: string, url: string): string {
  const [first] = databaseHosts(databaseUrl) ?? [];
  return url.replace("://", `://${first?.username ?? ""}@`);
}
