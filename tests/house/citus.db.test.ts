import { expect, inject, test } from "vitest";
import { createTestDatabase } from "#tests/support/database/postgres.ts";

const hasCitus = inject("postgres").workers.length > 0;

// The statements themselves: `plans.db.test.ts` of the service, with the same settings.
test.skipIf(!hasCitus).each(["identity-service", "token-service"] as const)(
  "with TEST_CITUS_WORKERS, all tables of %s are in one distributed schema",
  async (service) => {
    const database = await createTestDatabase(service);
    const rows = await database.ownerSql`
      select distinct citus_table_type as type, colocation_id > 0 as "isTogether" from citus_tables`;
    const [local] = await database.ownerSql`
      select count(*)::int as count from pg_tables
      where schemaname in ('public', 'part0') and tablename <> 'schema_migrations'
        and not exists (select 1 from citus_tables where table_name = format('%I.%I', schemaname, tablename)::regclass)`;
    await database.drop();
    expect(rows).toEqual([{ type: "schema", isTogether: true }]);
    expect(local).toEqual({ count: 0 });
  },
);
