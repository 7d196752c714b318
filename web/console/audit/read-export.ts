import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { GatehouseError, readData } from "#clients/browser/gateway-calls.ts";
import { csvOf } from "../export/csv.ts";
import type { Format } from "../export/export-sheet.tsx";

/**
 * `more`: the search finds more, from `nextCursor` on. Of the others nothing is kept: `tooLarge`, `broken` (it has no end) and
 * `interrupted` (the connection broke). A part of an export could be taken for the whole.
 */
export type ExportRead =
  | { whole: "whole"; file: Blob; entries: number }
  | { whole: "more"; file: Blob; entries: number; nextCursor: string }
  | { whole: "tooLarge" | "broken" | "interrupted" };

/** As the API writes them. */
const COLUMNS: readonly string[] = (
  "sequence id producer kind callId occurredAt receivedAt userId role sessionId claimedEmail clientIp userAgent method route " +
  "resource action requestId traceId outcome errorCode reason httpStatus latencyUs log"
).split(" ");

/** Of a file, which is in memory until it is saved. Ten thousand ordinary entries are about 10 MB. */
export const MAX_EXPORT_BYTES = 64_000_000;
/** More than an end with its cursor. */
const LINE_BYTES = 1_000;

/**
 * Reads JSON Lines piece by piece, so that one sees them grow. CSV is made of them: it could not say whether it is whole.
 * @returns no file unless it is good to keep. Of more than `maxBytes` no more is read.
 * @throws {GatehouseError} if the gateway has refused it.
 */
export async function readExport(
  response: Response,
  format: Format,
  onBytes: (bytes: number) => void,
  maxBytes = MAX_EXPORT_BYTES,
): Promise<ExportRead> {
  if (!response.ok || response.body === null) {
    await readData(response);
    throw new GatehouseError(response.status, { code: "internal_error" });
  }
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  const reader = response.body.getReader();
  for (;;) {
    const piece = await reader.read().catch(() => undefined);
    if (piece === undefined) return { whole: "interrupted" };
    const { value, done } = piece;
    if (done) break;
    bytes += value.length;
    if (bytes > maxBytes) {
      await reader.cancel();
      return { whole: "tooLarge" };
    }
    pieces.push(value);
    onBytes(bytes);
  }
  const lines = new Blob(pieces, { type: "application/x-ndjson" });
  try {
    const last = (await lines.slice(-LINE_BYTES).text()).trimEnd().split("\n").at(-1) ?? "";
    const { end } = JSON.parse(last) as { end: { entries: number; complete: boolean; nextCursor?: string } };
    const { entries, complete, nextCursor = "" } = end;
    const file = format === "csv" ? csvOf(recordsOf(await lines.text()), COLUMNS) : lines;
    return complete ? { whole: "whole", file, entries } : { whole: "more", file, entries, nextCursor };
  } catch {
    return { whole: "broken" };
  }
}

function recordsOf(lines: string): object[] {
  return lines
    .trimEnd()
    .split("\n")
    .slice(0, -1)
    .map((line) => {
      const { actor, ...entry } = JSON.parse(line) as AuditEntry;
      return { ...entry, ...actor };
    });
}
