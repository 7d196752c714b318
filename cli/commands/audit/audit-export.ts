import { ENTRY_COLUMNS } from "#audit-client/stream/audit-entry.ts";
import {
  AuditQueryServiceClient,
  type ExportEntriesRequest,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import type { ExportLine } from "../../audit-verifier/export-line.ts";
import type { Backend } from "../../backend.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import {
  CSV_DETAILS,
  csvLines,
  EXPORT_OPTIONS,
  type Export,
  jsonLines,
  writeExport,
} from "../export-output.ts";
import { wholeNumber } from "../whole-number.ts";
import { exportedLines } from "./audit-exported-lines.ts";

const SEQUENCES = { min: 1, max: Number.MAX_SAFE_INTEGER };
const CSV_COLUMNS = [...ENTRY_COLUMNS, "leafHash"];

export const auditExport: Command = {
  name: "audit export",
  summary: "Write the audit log, or a part of it, to a file or to standard output",
  details: `gatehouse audit verify needs jsonl. ${CSV_DETAILS}`,
  positionals: [],
  options: {
    "from-sequence": { type: "string", value: "number", description: "from this entry on" },
    "to-sequence": { type: "string", value: "number", description: "up to this entry" },
    ...EXPORT_OPTIONS,
  },
  run(input, backend, terminal) {
    const request = {
      firstSequence: wholeNumber(input.values, "from-sequence", SEQUENCES) ?? 0,
      lastSequence: wholeNumber(input.values, "to-sequence", SEQUENCES) ?? 0,
    };
    return writeExport(input, terminal, "entries", (to) => copyLog(backend, request, to));
  },
};

function copyLog(
  backend: Backend,
  request: ExportEntriesRequest,
  { format, write, progress, signal }: Export,
): Promise<number> {
  return backend.call("audit-service", AuditQueryServiceClient, async (client) => {
    let [entries, ofEntries] = [0, 0];
    if (format === "csv") await write(csvLines([CSV_COLUMNS], CSV_COLUMNS));
    for await (const lines of exportedLines(client, request)) {
      signal.throwIfAborted();
      for (const line of lines) {
        if (line.type === "entry") entries += 1;
        else if (line.type === "log") ofEntries = line.lastSequence + 1 - line.firstSequence;
      }
      const text = format === "csv" ? csvOf(lines) : jsonLines(lines);
      if (text !== "") await write(text);
      progress.show(entries, ofEntries);
    }
    if (entries !== ofEntries) throw incomplete(entries, ofEntries);
    return entries;
  });
}

function incomplete(entries: number, ofEntries: number): CliError {
  const message = `The log sent ${entries} of ${ofEntries} announced entries`;
  return new CliError(message, { exitCode: EXIT.failed, code: "incomplete" });
}

function csvOf(lines: readonly ExportLine[]): string {
  const records = lines.flatMap((line) => {
    if (line.type !== "entry") return [];
    const { entry, leafHash, claimedEmail } = line;
    return [{ ...entry, ...entry.actor, claimedEmail: claimedEmail?.address ?? "", leafHash }];
  });
  return csvLines(records, CSV_COLUMNS);
}
