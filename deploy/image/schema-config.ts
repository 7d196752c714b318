import { resolve } from "node:path";
import { z } from "zod";
import { logsFileSchema } from "#audit-service/logs/logs-file.ts";
import { databaseConfig, loadConfig } from "#kit/config/config.ts";
import { partsFileSchema } from "#token-service/parts/parts-file.ts";
import { SERVICE_DATABASES, type ServiceDatabase } from "../service-databases.ts";
import { USAGE } from "./usage.ts";

const EXIT_USAGE = 64;

const { DATABASE_URL, DATABASE_PASSWORD_FILE, DATABASE_CA_FILE, DATABASE_PLAINTEXT } = databaseConfig;

export const schemaConfigSchema = z.object({
  DATABASE_URL,
  DATABASE_PASSWORD_FILE,
  DATABASE_CA_FILE,
  DATABASE_PLAINTEXT,
  PARTS_FILE: partsFileSchema,
  LOGS_FILE: logsFileSchema,
});
export type SchemaConfig = z.output<typeof schemaConfigSchema>;

/** Contains `<service>/migrations`. */
export const ROOT = resolve(import.meta.dirname, "..", "..");

/** Exits with 64 or 78 on invalid arguments or configuration. */
export function schemaCommand(): { wanted: ServiceDatabase; config: SchemaConfig } {
  const [name, ...rest] = process.argv.slice(2);
  const wanted = SERVICE_DATABASES.find(({ database }) => database === name);
  if (wanted === undefined || rest.length > 0) {
    process.stderr.write(`${USAGE}\n`);
    process.exit(EXIT_USAGE);
  }
  return { wanted, config: loadConfig(schemaConfigSchema, process.env) };
}
