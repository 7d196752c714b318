import { resolve } from "node:path";
import { z } from "zod";
import { databaseConfig, loadConfig } from "../../service-kit/config.ts";
import { SERVICE_DATABASES, type ServiceDatabase } from "../service-databases.ts";
import { USAGE } from "./usage.ts";

const EXIT_USAGE = 64;

const { DATABASE_URL, DATABASE_PASSWORD_FILE, DATABASE_CA_FILE, DATABASE_PLAINTEXT } = databaseConfig;

/** What `migrate` and `await-schema` read from their environment. */
export const schemaConfigSchema = z.object({
  DATABASE_URL,
  DATABASE_PASSWORD_FILE,
  DATABASE_CA_FILE,
  DATABASE_PLAINTEXT,
});
export type SchemaConfig = z.output<typeof schemaConfigSchema>;

/** Where `<service>/migrations` are. */
export const ROOT = resolve(import.meta.dirname, "..", "..");

/** The database that the first argument names, and the configuration; or the end of the process: 64, 78. */
export function schemaCommand(): { wanted: ServiceDatabase; config: SchemaConfig } {
  const [name, ...rest] = process.argv.slice(2);
  const wanted = SERVICE_DATABASES.find(({ database }) => database === name);
  if (wanted === undefined || rest.length > 0) {
    process.stderr.write(`${USAGE}\n`);
    process.exit(EXIT_USAGE);
  }
  return { wanted, config: loadConfig(schemaConfigSchema, process.env) };
}
