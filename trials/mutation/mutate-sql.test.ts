import { expect, test } from "vitest";
import { removableLines } from "./mutate-sql.ts";

test("conditions, locks and further assignments of a statement can be taken away, and nothing else", () => {
  const source = [
    "const and = 1;", // outside of a statement
    "const rows = await sql`",
    "  update sessions set",
    "    generation = generation + 1,",
    "    leaf_seen = false",
    "  where id = 1",
    "    and revoked_at is null",
    "    and exists (",
    "      select 1",
    "    )",
    "    or (a = 1 and b = 2)",
    "  for update",
    "`;",
    "and(1);",
  ].join("\n");
  expect(removableLines(source)).toEqual([3, 6, 10, 11]);
});
