import { stringify } from "csv-stringify/browser/esm/sync";

/** RFC 4180. An apostrophe precedes texts that spreadsheets would run as formulas. */
export function csvOf(records: readonly object[], columns: readonly string[]): Blob {
  const cast = { boolean: String };
  const text = stringify([...records], { header: true, columns: [...columns], escape_formulas: true, cast });
  return new Blob([text], { type: "text/csv" });
}
