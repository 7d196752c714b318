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
import { type ExportRead, type Format, MAX_EXPORT_BYTES, readExport } from "./read-export.ts";

interface Saved {
  read: ExportRead;
  format: Format;
  /** From 1. */
  part: number;
  /** Of all parts so far. */
  entries: number;
}

/** What the search finds, as files of at most 10,000 entries. */
export function ExportSheet({ search, onClose }: { search: AuditSearch; onClose: () => void }) {
  const t = useText();
  const language = useLanguage();
  const { call, fetch: send } = useSession();
  const [bytes, setBytes] = useState(0);
  const [reads, setReads] = useState(search.reads === true);
  const [saved, setSaved] = useState<Saved>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const { run, isRunning, problem } = useAction(async (format: Format, former?: Saved) => {
    const controller = new AbortController();
    stop.current = controller;
    setSaved(undefined);
    setBytes(0);
    // Where a fresh proof of the person is demanded, this call asks for it.
    await call("GET /admin/audit/tail");
    const { reads: _other, ...others } = search;
    const begin = former?.read.whole === "more" && { cursor: former.read.nextCursor };
    const query = { ...filtersOf({ ...others, ...(reads && { reads }) }), ...begin };
    const response = await send(httpCall("GET /admin/audit/export", { query }).path, {
      signal: controller.signal,
    });
    const read = await readExport(response, format, setBytes);
    if (controller.signal.aborted) return;
    const part = (former?.part ?? 0) + 1;
    const time = new Date().toISOString().slice(0, 19).replaceAll(":", "");
    if ("file" in read) save(read.file, `audit-${time}${begin ? `-part${part}` : ""}.${format}`);
    const entries = (former?.entries ?? 0) + ("entries" in read ? read.entries : 0);
    setSaved({ read, format, part, entries });
  });
  const size = (count: number, unit: "kilobyte" | "megabyte") =>
    new Intl.NumberFormat(language, { style: "unit", unit, maximumFractionDigits: 0 }).format(count);
  const isNamed = search.action !== undefined || search.requestId !== undefined;
  const whole = saved?.read.whole;
  const number = (count: number) => new Intl.NumberFormat(language).format(count);
  return (
    <Sheet title={t("audit.export")} onClose={onClose}>
      {() => (
        <>
          <p className="muted">{t("auditExport.lead")}</p>
          {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
          {isRunning && (
            <p role="status">{t("auditExport.reading", { size: size(bytes / 1_000, "kilobyte") })}</p>
          )}
          {saved?.read.whole === "whole" && (
            <Notice>{t("auditExport.whole", { entries: number(saved.entries), parts: saved.part })}</Notice>
          )}
          {saved?.read.whole === "more" && (
            <Notice isBad>
              {t("auditExport.more", {
                entries: number(saved.entries),
                least: number(saved.entries + 1),
                parts: saved.part,
              })}
            </Notice>
          )}
          {whole === "tooLarge" && (
            <Notice isBad>
              {t("auditExport.tooLarge", { size: size(MAX_EXPORT_BYTES / 1_000_000, "megabyte") })}
            </Notice>
          )}
          {whole === "broken" && <Notice isBad>{t("auditExport.broken")}</Notice>}
          {whole === "interrupted" && (
            <Notice isBad>{t("auditExport.interrupted", { size: size(bytes / 1_000, "kilobyte") })}</Notice>
          )}
          {!isNamed && (
            <label className="check">
              <input
                type="checkbox"
                checked={reads}
                disabled={isRunning}
                onChange={({ target }) => {
                  setReads(target.checked);
                  // The parts of one export are of one search.
                  setSaved(undefined);
                }}
              />
              {t("audit.reads")}
            </label>
          )}
          <div className="buttons">
            {saved?.read.whole === "more" && (
              <Button isPending={isRunning} onClick={() => void run(saved.format, saved)}>
                {t("auditExport.next")}
              </Button>
            )}
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
