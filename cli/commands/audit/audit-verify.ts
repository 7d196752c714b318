import { readFileSync, statSync } from "node:fs";
import { logNumbers } from "#audit-client/stream/exported-lines.ts";
import { DomainError } from "#kit/values/errors.ts";
import { AuditQueryServiceClient } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import type { LogCheckpoint } from "../../audit-verifier/checkpoint.ts";
import { type ExportLine, LineError, parseExportLine } from "../../audit-verifier/export-line.ts";
import { NotAnExportError } from "../../audit-verifier/log-verification.ts";
import type { Trust } from "../../audit-verifier/logs-verification.ts";
import { readLines } from "../../audit-verifier/read-lines.ts";
import { NoteError, parseVerifierKey, type VerifierKey } from "../../audit-verifier/signed-note.ts";
import { readTrustedCheckpoints, TrustedCheckpointsError } from "../../audit-verifier/trusted-checkpoints.ts";
import type { LogsVerdict, Verdict } from "../../audit-verifier/verdict.ts";
import { verifyLogs } from "../../audit-verifier/verify-logs.ts";
import type { Backend } from "../../backend.ts";
import { CliError } from "../../cli-error.ts";
import type { Command, CommandInput, Terminal } from "../../command.ts";
import { EXIT, type ExitCode } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";
import { createProgress, type Progress, QUIET_OPTION } from "../progress.ts";
import { verdictText, verdictView } from "./audit-verdict-text.ts";
import { wholeLog } from "./whole-log.ts";

export const EXIT_OF: Record<Verdict["result"], ExitCode> = {
  proven: EXIT.ok,
  unproven: EXIT.failed,
  tampered: EXIT.tampered,
};

export const TRUST_OPTIONS = {
  key: {
    type: "string",
    value: "key or file",
    required: true,
    description: "the verifier key (of log 0), kept elsewhere; or a file of such keys, one a line",
  },
  checkpoints: {
    type: "string",
    value: "file",
    multiple: true,
    description: "checkpoints kept elsewhere, as JSON lines",
  },
  partial: {
    type: "boolean",
    description: "the file is only a part of the log: other entries do not count as missing",
  },
  ...QUIET_OPTION,
} as const;

export const auditVerify: Command = {
  name: "audit verify",
  summary:
    "Prove an export of the audit log, or the running log, against its key and checkpoints kept elsewhere",
  details:
    "Names the first entry that was changed, removed or added. Ends with 0 only if every entry is proven; 65 if the\n" +
    "log was tampered with, 1 if no signature covers its last entries, 66 if a file cannot be read.\n" +
    "What to keep, and what is proven: docs/audit-verify.md",
  positionals: [],
  optionalPositionals: ["export.jsonl"],
  options: {
    live: { type: "boolean", description: "the running log instead of a file" },
    ...TRUST_OPTIONS,
  },
  async run({ positionals: [path], values, lists, flags }, backend, terminal) {
    if (flags.has("live") === (path !== undefined))
      throw new UsageError("Specify either an export or --live");
    if (flags.has("live") && flags.has("partial")) throw new UsageError("--partial is for an export");
    const trust = await readTrust({ values, lists, flags }, terminal);
    using progress = createProgress(terminal, flags, "entries");
    const verdict =
      path === undefined
        ? await verifyLive(backend, trust, { progress, writeError: terminal.writeError })
        : await verifyFile(path, trust, progress);
    return { text: verdictText(verdict), json: verdictView(verdict), exitCode: EXIT_OF[verdict.result] };
  },
};

const shown =
  (progress: Progress) =>
  ({ entries, ofEntries }: { entries: number; ofEntries: number }) =>
    progress.show(entries, ofEntries);

/** @throws {CliError} 66, 65. */
export async function readTrust(
  { values, lists, flags }: Pick<CommandInput, "values" | "lists" | "flags">,
  { writeError }: Pick<Terminal, "writeError">,
): Promise<Trust> {
  const keys = readKeys(values.get("key") ?? "");
  const checkpoints = await readCheckpoints(lists.get("checkpoints") ?? [], keys, writeError);
  return { keys, checkpoints, isPartial: flags.has("partial") };
}

/** @param onLine Receives lines that only the verdict proves. @throws {CliError} 66. */
export async function verifyFile(
  path: string,
  trust: Trust,
  progress: Progress,
  onLine?: (line: unknown) => void,
): Promise<LogsVerdict> {
  try {
    return await verifyLogs({
      batches: readLines(path),
      read: (bytes) => {
        const line = parseExportLine(bytes);
        onLine?.(line);
        return line;
      },
      trust,
      onProgress: shown(progress),
    });
  } catch (error) {
    if (error instanceof NotAnExportError)
      throw inputError(`${path} is not an export of an audit log. ${error.message}`, error);
    if (error instanceof LineError) throw inputError(`A line of ${path} ${error.message}`, error);
    if (isFileError(error)) throw inputError(`${path} cannot be read: ${error.message}`, error);
    throw error;
  }
}

async function verifyLive(
  backend: Backend,
  trust: Trust,
  { progress, writeError }: { progress: Progress; writeError: Terminal["writeError"] },
): Promise<LogsVerdict> {
  return backend.call("audit-service", AuditQueryServiceClient, (client) =>
    verifyLogs({
      batches: liveLines(client, writeError),
      read: (line) => line,
      trust: { ...trust, isWhole: true },
      onProgress: shown(progress),
    }),
  );
}

async function* liveLines(
  client: AuditQueryServiceClient,
  writeError: Terminal["writeError"],
): AsyncGenerator<readonly ExportLine[]> {
  for (const log of await logNumbers(client)) yield* linesUpToHole(wholeLog(client, log, writeError));
}

/** audit-service answers not_found at a lost entry. The verifier then reports it as missing. */
async function* linesUpToHole(
  batches: AsyncIterable<readonly ExportLine[]>,
): AsyncGenerator<readonly ExportLine[]> {
  let isBegun = false;
  try {
    for await (const batch of batches) {
      isBegun ||= batch.length > 0;
      yield batch;
    }
  } catch (error) {
    if (!(isBegun && error instanceof DomainError && error.code === "not_found")) throw error;
  }
}

function readKeys(text: string): VerifierKey[] {
  const isFile = statSync(text, { throwIfNoEntry: false })?.isFile() === true;
  const lines = (isFile ? readText(text) : text).split("\n").filter((line) => line.trim() !== "");
  try {
    const keys = lines.map((line) => parseVerifierKey(line.trim()));
    if (keys.length === 0) throw new NoteError("form", "is empty");
    if (new Set(keys.map(({ name }) => name)).size > 1)
      throw new NoteError("form", "has keys of several logs");
    return keys;
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw inputError(`--key: ${isFile ? text : "not a file, and as a key it"} ${error.message}`, error);
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw inputError(`${path} cannot be read: ${(error as Error).message}`, error);
  }
}

async function readCheckpoints(
  paths: readonly string[],
  keys: readonly VerifierKey[],
  warn: (text: string) => void,
): Promise<LogCheckpoint[]> {
  const checkpoints: LogCheckpoint[] = [];
  for (const path of paths) {
    try {
      const read = await readTrustedCheckpoints(path, keys);
      for (const checkpoint of read.checkpoints) checkpoints.push(checkpoint);
      if (read.tornLines > 0) warn(`gatehouse: ${path}: incomplete lines skipped: ${read.tornLines}\n`);
      if (read.checkpoints.length === 0) throw inputError(`${path} has no checkpoint`, undefined);
    } catch (error) {
      if (isFileError(error)) throw inputError(`${path} cannot be read: ${error.message}`, error);
      if (!(error instanceof TrustedCheckpointsError)) throw error;
      if (error.code === "form") throw inputError(error.message, error);
      throw new CliError(error.message, {
        exitCode: EXIT.tampered,
        code: "audit_log_tampered",
        cause: error,
      });
    }
  }
  return checkpoints;
}

export function inputError(message: string, cause: unknown): CliError {
  return new CliError(message, { exitCode: EXIT.input, code: "input", cause });
}

export function isFileError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error;
}
