import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { deleteImportsBefore, findImport, selectBatches } from "./import-store.ts";

export interface ImportedRow {
  /** Empty if it was refused. */
  userId: string;
  /** Empty if it was imported. */
  refusal: string;
}

/** Each has at most 100 rows. */
const BATCHES_OF_PAGE = 100;
const KEPT_MS = 30 * 24 * 3_600_000;

/** Of PostgreSQL's `integer`. */
const MAX_ROW = 2 ** 31 - 1;

/** Rows from `firstRow` on, which must be the first one of a call. @throws {DomainError} `validation_failed`, `not_found`. */
export async function listImportedRows(
  deps: { sql: Sql },
  { importId, firstRow }: { importId: string; firstRow: number },
): Promise<{ firstRow: number; rows: ImportedRow[] }> {
  if (!Number.isInteger(firstRow) || firstRow < 1 || firstRow > MAX_ROW) {
    const problem = { field: "firstRow", code: "invalid_value", message: `must be 1 to ${MAX_ROW}` };
    throw new DomainError("validation_failed", undefined, { fields: [problem] });
  }
  if ((await findImport(deps.sql, importId)) === undefined) throw new DomainError("not_found");
  const batches = await selectBatches(deps.sql, { importId, firstRow, limit: BATCHES_OF_PAGE });
  const rows = batches.flatMap(({ refusals, userIds }) => {
    const ids = userIds.values();
    return refusals.map((refusal) => ({
      refusal,
      userId: refusal === "" ? (ids.next().value ?? "") : "",
    }));
  });
  return { firstRow: batches[0]?.firstRow ?? firstRow, rows };
}

/** To be repeated. Users stay, and the audit log says whence they came. */
export async function deleteOldImports({ sql, now }: { sql: Sql; now: () => Date }): Promise<void> {
  await deleteImportsBefore(sql, new Date(now().getTime() - KEPT_MS));
}
