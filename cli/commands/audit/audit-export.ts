import { stringify } from "csv-stringify/sync";
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
import { UsageError } from "../../usage-error.ts";
import { createProgress, type Progress, QUIET_OPTION } from "../progress.ts";
import { replaceFile } from "../replaced-file.ts";
import { wholeNumber } from "../whole-number.ts";
import { exportedLines } from "./audit-exported-lines.ts";

const SEQUENCES = { min: 1, max: Number.MAX_SAFE_INTEGER };
const CSV_COLUMNS = [...ENTRY_COLUMNS, "leafHash"];
const FORMATS = {
  jsonl: {
    head: "",
    format: (lines: readonly ExportLine[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
  },
  csv: { head: stringify([CSV_COLUMNS]), format: csvOf },
} as const;

export const auditExport: Command = {
  name: "audit export",
  summary: "Write the audit log, or a part of it, to a file or to standard output",
  details:
    "gatehouse audit verify needs jsonl. csv is for reading: an apostrophe precedes texts that a spreadsheet would run\n" +
    "as formulas. The file is complete or absent.",
  positionals: [],
  options: {
    format: { type: "string", value: "format", description: "jsonl (default) or csv" },
    "from-sequence": { type: "string", value: "number", description: "from this entry on" },
    "to-sequence": { type: "string", value: "number", description: "up to this entry" },
    output: { type: "string", value: "file", description: "write to this file" },
    force: { type: "boolean", description: "replace an existing file" },
    ...QUIET_OPTION,
  },
  async run({ values, flags }, backend, terminal) {
    const format = values.get("format") ?? "jsonl";
    if (!Object.hasOwn(FORMATS, format)) throw new UsageError("--format must be jsonl or csv");
    const request = {
      firstSequence: wholeNumber(values, "from-sequence", SEQUENCES) ?? 0,
      lastSequence: wholeNumber(values, "to-sequence", SEQUENCES) ?? 0,
    };
    const output = values.get("output");
    using progress = createProgress(terminal, flags, "entries");
    const job = { backend, request, progress, ...FORMATS[format as keyof typeof FORMATS] };
    if (output === undefined) {
      await copyLog(job, (text) => terminal.writeOut(text));
      return undefined;
    }
    let entries = 0;
    await replaceFile(output, { force: flags.has("force") }, async (file, signal) => {
      entries = await copyLog(job, (text) => file.writeFile(text), signal);
    });
    return { text: `${entries} entries were written to ${output}`, json: { entries, output, format } };
  },
};

interface Job {
  backend: Backend;
  request: ExportEntriesRequest;
  progress: Progress;
  head: string;
  format: (lines: readonly ExportLine[]) => string;
}

function copyLog(
  { backend, request, progress, head, format }: Job,
  write: (text: string) => Promise<void>,
  signal?: AbortSignal,
): Promise<number> {
  return backend.call("audit-service", AuditQueryServiceClient, async (client) => {
    let [entries, ofEntries] = [0, 0];
    if (head !== "") await write(head);
    for await (const lines of exportedLines(client, request)) {
      signal?.throwIfAborted();
      for (const line of lines) {
        if (line.type === "entry") entries += 1;
        else if (line.type === "log") ofEntries = line.lastSequence + 1 - line.firstSequence;
      }
      const text = format(lines);
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

/** RFC 4180. An apostrophe precedes texts that spreadsheets would run as formulas. */
function csvOf(lines: readonly ExportLine[]): string {
  const records = lines.flatMap((line) => {
    if (line.type !== "entry") return [];
    const { entry, leafHash, claimedEmail } = line;
    return [{ ...entry, ...entry.actor, claimedEmail: claimedEmail?.address ?? "", leafHash }];
  });
  return stringify(records, { columns: CSV_COLUMNS, escape_formulas: true });
}
