import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { endImport, lockImport } from "./import-store.ts";
import type { ImportsDeps } from "./judge-row.ts";

/** Idempotent. @param rows of the whole file. @throws {DomainError} `not_found`, `conflict` if some are not stored. */
export async function completeImport(
  deps: ImportsDeps,
  { importId, rows }: { importId: string; rows: number },
  context: CallContext,
): Promise<{ imported: number; refused: number }> {
  return transaction(deps.sql, async (tx) => {
    const found = await lockImport(tx, importId);
    if (found === undefined) throw new DomainError("not_found");
    if (found.nextRow !== rows + 1) throw new DomainError("conflict", "the import has other rows");
    const counts = { imported: found.imported, refused: rows - found.imported };
    if (found.completedAt !== null) return counts;
    await endImport(tx, importId, deps.now());
    const { imported, refused } = counts;
    const file = `from ${found.source}, file sha256 ${found.fileSha256.toString("hex")}`;
    const reason = `${imported} imported, ${refused} refused, ${file}`;
    await recordAudit(tx, deps, { type: "import_completed", userId: importId, reason }, context);
    return counts;
  });
}
