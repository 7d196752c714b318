import { stringify } from "csv-stringify/sync";
import type { Command, CommandInput, Terminal } from "../command.ts";
import { printableJson, printableLines } from "../printable.ts";
import { UsageError } from "../usage-error.ts";
import { createProgress, type Progress, QUIET_OPTION } from "./progress.ts";
import { replaceFile } from "./replaced-file.ts";

export const EXPORT_OPTIONS = {
  format: { type: "string", value: "format", description: "jsonl (default) or csv" },
  output: { type: "string", value: "file", description: "write to this file" },
  force: { type: "boolean", description: "replace an existing file" },
  ...QUIET_OPTION,
} as const;

/** For the details of a command that has them. */
export const CSV_DETAILS =
  "csv is for reading: an apostrophe precedes texts that a spreadsheet would run\n" +
  "as formulas, and a terminal shows \ufffd for characters that would control it.\n" +
  "The file is complete or absent.";

export interface Export {
  format: "jsonl" | "csv";
  write: (text: string) => Promise<void>;
  progress: Progress;
  signal: AbortSignal;
}

/** Writes to --output, or to standard output. @param copy returns how many it has written. */
export async function writeExport(
  { values, flags }: CommandInput,
  terminal: Terminal,
  what: string,
  copy: (to: Export) => Promise<number>,
): ReturnType<Command["run"]> {
  const format = values.get("format") ?? "jsonl";
  if (format !== "jsonl" && format !== "csv") throw new UsageError("--format must be jsonl or csv");
  const output = values.get("output");
  using progress = createProgress(terminal, flags, what);
  if (output === undefined) {
    // Of JSON Lines every one is harmless already.
    const isShown = format === "csv" && terminal.isTerminal();
    const write = (text: string) => terminal.writeOut(isShown ? printableLines(text) : text);
    await copy({ format, write, progress, signal: AbortSignal.any([]) });
    return undefined;
  }
  let count = 0;
  await replaceFile(output, { force: flags.has("force") }, async (file, signal) => {
    count = await copy({ format, write: (text) => file.writeFile(text), progress, signal });
  });
  return { text: `${count} ${what} were written to ${output}`, json: { [what]: count, output, format } };
}

export function jsonLines(records: readonly object[]): string {
  return records.map((record) => `${printableJson(record)}\n`).join("");
}

/** RFC 4180. An apostrophe precedes texts that spreadsheets would run as formulas. */
export function csvLines(records: readonly object[], columns: readonly string[]): string {
  return stringify([...records], {
    columns: [...columns],
    escape_formulas: true,
    cast: { boolean: String },
  });
}
