import { useRef, useState } from "react";
import { httpCall } from "#clients/api/endpoint.ts";
import { useSession } from "../../session/session.ts";
import { useLanguage } from "../../ui/text.ts";
import { ExportSheet, type PartWanted } from "../export/export-sheet.tsx";
import { useText } from "../text.ts";
import { type AuditSearch, filtersOf } from "./audit-search.ts";
import { MAX_EXPORT_BYTES, readExport } from "./read-export.ts";

const TEXTS = {
  title: "audit.export",
  lead: "auditExport.lead",
  whole: "auditExport.whole",
  more: "auditExport.more",
} as const;
const FAILURES = {
  tooLarge: "auditExport.tooLarge",
  broken: "auditExport.broken",
  interrupted: "auditExport.interrupted",
} as const;

/** In all logs. @param place `log:sequence`, separated by commas. */
const entriesBefore = (place = ""): number =>
  place.split(",").reduce((sum, part) => sum + Number(part.split(":")[1] ?? 0), 0);

/** Parts of at most 10,000 entries. */
export function AuditExport({ search, onClose }: { search: AuditSearch; onClose: () => void }) {
  const t = useText();
  const language = useLanguage();
  const { call, fetch: send } = useSession();
  const [reads, setReads] = useState(search.reads === true);
  const sizeOfLogs = useRef(0);
  const size = (count: number, unit: "kilobyte" | "megabyte") =>
    new Intl.NumberFormat(language, { style: "unit", unit, maximumFractionDigits: 0 }).format(count);
  const number = (count: number) => new Intl.NumberFormat(language).format(count);
  const readPart = async ({ format, cursor, signal, onProgress }: PartWanted) => {
    // Where a fresh proof of the person is demanded, this call asks for it.
    sizeOfLogs.current = entriesBefore((await call("GET /admin/audit/tail")).place);
    const { reads: _other, ...others } = search;
    const filters = filtersOf({ ...others, ...(reads && { reads }) });
    const query = { ...filters, ...(cursor !== undefined && { cursor }) };
    const response = await send(httpCall("GET /admin/audit/export", { query }).path, { signal });
    let bytes = "";
    const read = await readExport(response, format, (count) => {
      bytes = size(count / 1_000, "kilobyte");
      onProgress(t("auditExport.reading", { size: bytes }));
    });
    if ("file" in read) return { ...read, nextCursor: read.whole === "more" ? read.nextCursor : undefined };
    const most = size(MAX_EXPORT_BYTES / 1_000_000, "megabyte");
    return { failure: t(FAILURES[read.whole], { size: read.whole === "tooLarge" ? most : bytes }) };
  };
  const isNamed = search.action !== undefined || search.requestId !== undefined;
  return (
    <ExportSheet
      name="audit"
      texts={TEXTS}
      formats={["ndjson", "csv"]}
      countOf={() => number(sizeOfLogs.current)}
      readPart={readPart}
      onClose={onClose}
    >
      {(isRunning, forget) =>
        !isNamed && (
          <label className="check">
            <input
              type="checkbox"
              checked={reads}
              disabled={isRunning}
              onChange={({ target }) => {
                setReads(target.checked);
                forget();
              }}
            />
            {t("audit.reads")}
          </label>
        )
      }
    </ExportSheet>
  );
}
