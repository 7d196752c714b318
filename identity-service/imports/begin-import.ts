import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { findImportByKey, type Import, type ImportKey, insertImport } from "./import-store.ts";
import type { ImportsDeps } from "./judge-row.ts";

const SHA256_BYTES = 32;
const SOURCE = /^[a-z0-9-]{1,32}$/;
const MAX_SETTINGS_CHARACTERS = 2_048;

/** Finds the import of the same file and settings, or begins one. @throws {DomainError} `validation_failed`. */
export async function beginImport(deps: ImportsDeps, key: ImportKey, context: CallContext): Promise<Import> {
  const isSound =
    key.fileSha256.length === SHA256_BYTES &&
    SOURCE.test(key.source) &&
    key.settings.length <= MAX_SETTINGS_CHARACTERS;
  if (!isSound)
    throw new DomainError("validation_failed", "the file, its source or the settings are invalid");
  return transaction(deps.sql, async (tx) => {
    const begun = await insertImport(tx, key, { id: deps.newId(), startedAt: deps.now() });
    const found = begun ?? (await findImportByKey(tx, key));
    if (found === undefined) throw new Error("an import was deleted while it began");
    const reason = begun === undefined ? `continued at row ${found.nextRow}` : "";
    if (found.completedAt === null) {
      const what = [`from ${key.source}, file sha256 ${key.fileSha256.toString("hex")}`, reason];
      const event = { type: "import_started", userId: found.id } as const;
      await recordAudit(tx, deps, { ...event, reason: what.filter(Boolean).join(", ") }, context);
    }
    return found;
  });
}
