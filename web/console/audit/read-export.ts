import { GatehouseError, readData } from "#clients/browser/gateway-calls.ts";

export type Format = "ndjson" | "csv";
/**
 * `more`: the search finds more than one export has. `unknown`: CSV does not say. Of the others nothing is kept: `tooLarge`, `broken` (it
 * has no end) and `interrupted` (the connection broke). A part of an export could be taken for the whole.
 */
export type Whole = "whole" | "more" | "unknown" | "tooLarge" | "broken" | "interrupted";

/** Of a file, which is in memory until it is saved. Ten thousand ordinary entries are about 10 MB. */
export const MAX_EXPORT_BYTES = 64_000_000;
const LINE_BYTES = 200;

/**
 * Reads it piece by piece, so that one sees it grow.
 * @returns no file unless it is good to keep. Of more than `maxBytes` no more is read.
 * @throws {GatehouseError} if the gateway has refused it.
 */
export async function readExport(
  response: Response,
  format: Format,
  onBytes: (bytes: number) => void,
  maxBytes = MAX_EXPORT_BYTES,
): Promise<{ file?: Blob; whole: Whole }> {
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
  const file = new Blob(pieces, { type: response.headers.get("content-type") ?? "" });
  const end = await file.slice(-LINE_BYTES).text();
  const whole = format === "csv" ? wholeCsv(end) : wholeOf(end);
  return whole === "broken" ? { whole } : { file, whole };
}

/** Of an end in the middle of a line one knows. */
const wholeCsv = (end: string): Whole => (end.endsWith("\n") ? "unknown" : "broken");

function wholeOf(end: string): Whole {
  const last = end.trimEnd().split("\n").at(-1) ?? "";
  try {
    const { complete } = (JSON.parse(last) as { end: { complete: boolean } }).end;
    return complete ? "whole" : "more";
  } catch {
    return "broken";
  }
}
