import { migrateSchema } from "../migrate-schema.ts";
import { ROOT, schemaCommand } from "./schema-config.ts";
import { connectForSchema } from "./schema-connection.ts";

const { wanted, config } = schemaCommand();
const owner = connectForSchema(config, `migrate ${wanted.database}`);
try {
  const ran = await migrateSchema({ owner, wanted, root: ROOT, log: console.log });
  console.log(`${wanted.database}: ${ran.length === 0 ? "up to date" : `${ran.length} migrations ran`}`);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await owner.end({ timeout: 1 });
}
