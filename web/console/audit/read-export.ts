import { GatehouseError } from "../../client/gateway-calls.ts";
import { readAnswer } from "../../ui/api.ts";

export type Format = "ndjson" | "csv";
/** `more`: the search finds more than one export has. `untold`: CSV does not say. `tooLarge`: nothing was kept. */
export type Whole = "whole" | "more" | "broken" | "untold" | "tooLarge";

/** Of a file, which is in memory until it is saved. Ten thousand ordinary entries are about 10 MB. */
export const MAX_EXPORT_BYTES = 64_000_000;
const LINE_BYTES = 200;

/**
 * Reads it piece by piece, so that one sees it grow.
 * @returns an empty file if it has more than `maxBytes`, of which no more was read.
 * @throws {GatehouseError} also if it breaks off.
 */
export async function readExport(
  response: Response,
  format: Format,
  onBytes: (bytes: number) => void,
  maxBytes = MAX_EXPORT_BYTES,
): Promise<{ file: Blob; whole: Whole }> {
  if (!response.ok || response.body === null) {
    await readAnswer(response);
    throw new GatehouseError(response.status, { code: "internal_error" });
  }
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { value, done } = await reader.read().catch(() => {
      throw new GatehouseError(0, { code: "offline" });
    });
    if (done) break;
    bytes += value.length;
    if (bytes > maxBytes) {
      await reader.cancel();
      return { file: new Blob(), whole: "tooLarge" };
    }
    pieces.push(value);
    onBytes(bytes);
  }
  const file = new Blob(pieces, { type: response.headers.get("content-type") ?? "" });
  if (format === "csv") return { file, whole: "untold" };
  return { file, whole: wholeOf(await file.slice(-LINE_BYTES).text()) };
}

function wholeOf(end: string): Whole {
  const last = end.trimEnd().split("\n").at(-1) ?? "";
  try {
    const { complete } = (JSON.parse(last) as { end: { complete: boolean } }).end;
    return complete ? "whole" : "more";
  } catch {
    return "broken";
  }
}
