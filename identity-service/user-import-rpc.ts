import { filterText, type RecordReading } from "#audit-client/stream/record-reading.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import type {
  ImportRow as ProtoRow,
  UserImportServiceServer,
} from "#proto/gatehouse/identity/v1/user_import_service.ts";
import { beginImport } from "./imports/begin-import.ts";
import { completeImport } from "./imports/complete-import.ts";
import { importRows } from "./imports/import-rows.ts";
import type { ImportsDeps } from "./imports/judge-row.ts";
import { checkRows, type ImportRow } from "./imports/judge-rows.ts";
import { listImportedRows } from "./imports/list-imported-rows.ts";

export const USER_IMPORT_CALLERS: Callers<UserImportServiceServer> = {
  beginImport: ["operator"],
  checkRows: ["operator"],
  importRows: ["operator"],
  completeImport: ["operator"],
  listImportedRows: ["operator"],
};

export function createUserImportRpc(
  deps: ImportsDeps,
  recordReading: RecordReading,
): Implementation<UserImportServiceServer> {
  return {
    beginImport: async ({ fileSha256, source, settings }, context) => {
      const key = { fileSha256: Buffer.from(fileSha256), source, settings };
      const { id, nextRow, completedAt } = await beginImport(deps, key, context);
      return { importId: id, nextRow, completed: completedAt !== null };
    },
    checkRows: async ({ rows }, context) => {
      await recordReading(context, {
        action: "user.import_checked",
        filter: filterText({ rows: rows.length }),
      });
      return checkRows(deps, rows.map(decodeRow));
    },
    importRows: async ({ importId, firstRow, rows }, context) => ({
      nextRow: await importRows(deps, { importId, firstRow, rows: rows.map(decodeRow) }, context),
    }),
    completeImport: (request, context) => completeImport(deps, request, context),
    listImportedRows: async (request, context) => {
      const filter = filterText({ firstRow: request.firstRow });
      await recordReading(context, { action: "user.import_read", resource: request.importId, filter });
      return listImportedRows(deps, request);
    },
  };
}

/** @throws {DomainError} `validation_failed` for a kind of a newer version. */
function decodeRow({ row }: ProtoRow): ImportRow {
  if (row === undefined) throw new DomainError("validation_failed", "a row is empty or of an unknown kind");
  return row.value;
}
