import { useEffect, useRef, useState } from "react";
import { httpCall } from "#clients/api/endpoint.ts";
import { useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Sheet } from "../../ui/dialog.tsx";
import { useAction } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { save } from "../../ui/save.ts";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { type AuditSearch, filtersOf } from "./audit-search.ts";
import { type Format, MAX_EXPORT_BYTES, readExport, type Whole } from "./read-export.ts";

/** What the search finds, as a file. */
export function ExportSheet({ search, onClose }: { search: AuditSearch; onClose: () => void }) {
  const t = useText();
  const language = useLanguage();
  const { call, fetch: send } = useSession();
  const [bytes, setBytes] = useState(0);
  const [whole, setWhole] = useState<Whole>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const { run, isRunning, problem } = useAction(async (format: Format) => {
    const controller = new AbortController();
    stop.current = controller;
    setWhole(undefined);
    setBytes(0);
    // Where a fresh proof of the person is demanded, this call asks for it.
    await call("GET /admin/audit/tail");
    const response = await send(
      httpCall("GET /admin/audit/export", { query: { ...filtersOf(search), format } }).path,
      {
        signal: controller.signal,
      },
    );
    const { file, whole: found } = await readExport(response, format, setBytes);
    if (controller.signal.aborted) return;
    const time = new Date().toISOString().slice(0, 19).replaceAll(":", "");
    if (file !== undefined) save(file, `audit-${time}.${format}`);
    setWhole(found);
  });
  const size = (count: number, unit: "kilobyte" | "megabyte") =>
    new Intl.NumberFormat(language, { style: "unit", unit, maximumFractionDigits: 0 }).format(count);
  return (
    <Sheet title={t("audit.export")} onClose={onClose}>
      {() => (
        <>
          <p className="muted">{t("auditExport.lead")}</p>
          {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
          {isRunning && (
            <p role="status">{t("auditExport.reading", { size: size(bytes / 1_000, "kilobyte") })}</p>
          )}
          {whole === "whole" && <Notice>{t("auditExport.whole")}</Notice>}
          {whole === "more" && <Notice>{t("auditExport.more")}</Notice>}
          {whole === "unknown" && <Notice>{t("auditExport.unknown")}</Notice>}
          {whole === "tooLarge" && (
            <Notice isBad>
              {t("auditExport.tooLarge", { size: size(MAX_EXPORT_BYTES / 1_000_000, "megabyte") })}
            </Notice>
          )}
          {whole === "broken" && <Notice isBad>{t("auditExport.broken")}</Notice>}
          {whole === "interrupted" && (
            <Notice isBad>{t("auditExport.interrupted", { size: size(bytes / 1_000, "kilobyte") })}</Notice>
          )}
          <div className="buttons">
            <Button isPending={isRunning} onClick={() => void run("ndjson")}>
              JSON Lines
            </Button>
            <Button isPending={isRunning} onClick={() => void run("csv")}>
              CSV
            </Button>
            <Button kind="quiet" onClick={onClose}>
              {t(whole === undefined ? "form.cancel" : "auditExport.close")}
            </Button>
          </div>
        </>
      )}
    </Sheet>
  );
}
