import { type LogCheckpoint, openLogCheckpoint } from "./checkpoint.ts";
import { checkLine, LineError, parseExportLine } from "./export-line.ts";
import { readLines } from "./read-lines.ts";
import { NoteError, type VerifierKey } from "./signed-note.ts";

export class TrustedCheckpointsError extends Error {
  override readonly name = "TrustedCheckpointsError";
  readonly code: "form" | "signature";

  constructor(code: "form" | "signature", message: string) {
    super(message);
    this.code = code;
  }
}

export interface TrustedCheckpoints {
  checkpoints: LogCheckpoint[];
  tornLines: number;
}

const LINE_START = '{"type":"checkpoint","note":"';

/**
 * Reads JSON lines of checkpoints of any of the logs, or the log output of audit-service, whose other lines are ignored.
 * @param keys Of log 0.
 * @throws {TrustedCheckpointsError} for the first invalid line, and errors of the file system.
 */
export async function readTrustedCheckpoints(
  path: string,
  keys: readonly VerifierKey[],
): Promise<TrustedCheckpoints> {
  const checkpoints: LogCheckpoint[] = [];
  let tornLines = 0;
  let line = 0;
  try {
    for await (const batch of readLines(path)) {
      for (const bytes of batch) {
        line += 1;
        const text = bytes.toString();
        if (isTorn(text)) tornLines += 1;
        else if (!isLogLine(text)) checkpoints.push(readCheckpoint(bytes, keys));
        else checkpoints.push(...inLogLine(text).map((note) => openLogCheckpoint(note, keys)));
      }
    }
  } catch (error) {
    if (error instanceof NoteError)
      throw new TrustedCheckpointsError(error.code, `${path}: the note in line ${line} ${error.message}`);
    if (error instanceof LineError)
      throw new TrustedCheckpointsError("form", `${path}: line ${line} ${error.message}`);
    throw error;
  }
  return { checkpoints, tornLines };
}

function isTorn(text: string): boolean {
  // A whole line with another line break is refused: skipped, it would prove nothing without a word.
  if (/\}\r?$/.test(text)) return false;
  return text.startsWith(LINE_START) || LINE_START.startsWith(text);
}

function isLogLine(text: string): boolean {
  return text.startsWith('{"level":"');
}

function inLogLine(text: string): string[] {
  try {
    const { msg, checkpoint } = JSON.parse(text) as { msg?: unknown; checkpoint?: unknown };
    return msg === "checkpoint" && typeof checkpoint === "string" ? [checkpoint] : [];
  } catch {
    return [];
  }
}

function readCheckpoint(bytes: Buffer, keys: readonly VerifierKey[]): LogCheckpoint {
  const line = parseExportLine(bytes);
  checkLine(line);
  if (line.type !== "checkpoint") throw new LineError("is not a checkpoint");
  return openLogCheckpoint(line.note, keys);
}
