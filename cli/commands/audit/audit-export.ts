import { ENTRY_COLUMNS } from "#audit-client/stream/audit-entry.ts";
import type { ExportLine } from "#audit-client/stream/export-line.ts";
import { exportedLines, logNumbers } from "#audit-client/stream/exported-lines.ts";
import { AuditQueryServiceClient } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { CliError } from "../../cli-error.ts";
import type { Command, Terminal } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { CSV_DETAILS, csvLines, EXPORT_OPTIONS, type Export, writeExport } from "../export-output.ts";
import { logOption, wholeNumber } from "../whole-number.ts";
import { wholeLog } from "./whole-log.ts";

const SEQUENCES = { min: 1, max: Number.MAX_SAFE_INTEGER };
const CSV_COLUMNS = [...ENTRY_COLUMNS, "leafHash"];
const CSV_COLUMNS_OF_ALL = [...CSV_COLUMNS, "log"];

export const auditExport: Command = {
  name: "audit export",
  summary: "Write the audit log, or a part of it, to a file or to standard output",
  details: `Of several logs all in one file, log 0 first. gatehouse audit verify needs jsonl. ${CSV_DETAILS}`,
  positionals: [],
  options: {
    log: { type: "string", value: "number", description: "this log alone; log 0 with sequences" },
    "from-sequence": { type: "string", value: "number", description: "from this entry on" },
    "to-sequence": { type: "string", value: "number", description: "up to this entry" },
    ...EXPORT_OPTIONS,
  },
  run(input, backend, terminal) {
    const firstSequence = wholeNumber(input.values, "from-sequence", SEQUENCES);
    const lastSequence = wholeNumber(input.values, "to-sequence", SEQUENCES);
    const log =
      logOption(input.values) ?? (firstSequence === undefined && lastSequence === undefined ? undefined : 0);
    const request =
      log === undefined
        ? undefined
        : { firstSequence: firstSequence ?? 0, lastSequence: lastSequence ?? 0, log };
    return writeExport(input, terminal, "entries", (to) =>
      backend.call("audit-service", AuditQueryServiceClient, (client) =>
        request === undefined
          ? copyAll(client, terminal, to)
          : copyLogs([[request.log, exportedLines(client, request, to.signal)]], to),
      ),
    );
  },
};

type LogLines = readonly [log: number, lines: AsyncIterable<readonly ExportLine[]>];

async function copyAll(
  client: AuditQueryServiceClient,
  { writeError }: Terminal,
  to: Export,
): Promise<number> {
  const logs = await logNumbers(client);
  return copyLogs(
    logs.map((log) => [log, wholeLog(client, log, writeError, to.signal)]),
    to,
  );
}

async function copyLogs(logs: readonly LogLines[], to: Export): Promise<number> {
  const { format, write, progress, signal } = to;
  const columns = logs.length > 1 ? CSV_COLUMNS_OF_ALL : CSV_COLUMNS;
  let [entries, ofEntries] = [0, 0];
  if (format === "csv") await write(csvLines([columns], columns));
  for (const [log, batches] of logs) {
    for await (const lines of batches) {
      signal.throwIfAborted();
      for (const line of lines) {
        if (line.type === "entry") entries += 1;
        else if (line.type === "log") ofEntries += line.lastSequence + 1 - line.firstSequence;
      }
      const text = format === "csv" ? csvLines(recordsOf(lines, log), columns) : signedLines(lines);
      if (text !== "") await write(text);
      progress.show(entries, ofEntries);
    }
    if (entries !== ofEntries) throw incomplete(entries, ofEntries);
  }
  return entries;
}

/** The verifier compares bytes, so nothing is escaped. The log itself has replaced what would control a terminal. */
function signedLines(lines: readonly ExportLine[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function incomplete(entries: number, ofEntries: number): CliError {
  const message = `The log sent ${entries} of ${ofEntries} announced entries`;
  return new CliError(message, { exitCode: EXIT.failed, code: "incomplete" });
}

function recordsOf(lines: readonly ExportLine[], log: number): object[] {
  return lines.flatMap((line) => {
    if (line.type !== "entry") return [];
    const { entry, leafHash, claimedEmail } = line;
    return [{ ...entry, ...entry.actor, claimedEmail: claimedEmail?.address ?? "", leafHash, log }];
  });
}
