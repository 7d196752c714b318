import { useState } from "react";
import { Button } from "../../ui/button.tsx";
import { visible } from "../../ui/format.ts";
import { Notice } from "../../ui/notice.tsx";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { momentText } from "../when.tsx";
import type { Checked, LogState, ProvenEntry } from "./check-log.ts";
import { KeySheet } from "./key-sheet.tsx";

const USUAL_MS = 60_000;

/** What this browser has checked of an entry by itself. */
export function ProofPanel({
  log,
  checked,
  checkedAtMs,
}: {
  log: Checked<LogState>;
  checked: Checked<ProvenEntry>;
  checkedAtMs: number;
}) {
  const t = useText();
  const [openedAtMs] = useState(Date.now);
  if (log.kind === "alarm") return <Notice isBad>{t("proof.not")}</Notice>;
  switch (checked.kind) {
    case "alarm":
      return <Notice isBad>{t("proof.not")}</Notice>;
    case "unsupported":
      return <Notice isBad>{t("proof.unsupported")}</Notice>;
    case "waiting": {
      // By two clocks, of which the answer names one.
      const since = [openedAtMs, Date.parse(checked.entry?.receivedAt ?? "")];
      const isLate = since.some((ms) => checkedAtMs - ms > USUAL_MS);
      return (
        <Notice isBad={isLate}>
          <strong>{t("proof.notYet")}</strong>
          <span>{t(isLate ? "proof.late" : "proof.soon")}</span>
        </Notice>
      );
    }
    case "proven":
      return log.kind === "proven" ? <Proven entry={checked.found} log={log.found} /> : null;
  }
}

function Proven({ entry, log }: { entry: ProvenEntry; log: LogState }) {
  const t = useText();
  const language = useLanguage();
  const [isOpen, setOpen] = useState(false);
  const number = new Intl.NumberFormat(language);
  const isCompared = log.comparedAt !== undefined;
  const { checkpoint } = entry;
  const [name = "", keyId = ""] = log.key.split("+");
  return (
    <section className={isCompared ? "proof" : "proof open"} aria-label={t("proof.title")}>
      <div role="status">
        <h2>
          <span className={isCompared ? "mark" : "mark open"} aria-hidden="true" />
          {t(isCompared ? "proof.proven" : "proof.provenByFirst")}
        </h2>
      </div>
      <ul>
        <li>{t("proof.hash", { hash: entry.leafHash })}</li>
        <li>{t("proof.inclusion", { count: number.format(checkpoint.size) })}</li>
        <li>
          {t("proof.signed", {
            when: momentText(checkpoint.time, language),
            name: visible(name),
            id: visible(keyId),
          })}
        </li>
        {log.since !== undefined && (
          <li>
            {t("proof.grown", {
              count: number.format(log.since.size),
              when: momentText(log.since.seenAt, language),
            })}
          </li>
        )}
      </ul>
      {!isCompared && <p>{t("proof.compareLead")}</p>}
      <div className="buttons">
        <Button kind={isCompared ? "quiet" : "main"} size="slim" onClick={() => setOpen(true)}>
          {t(isCompared ? "proof.aboutKey" : "proof.compare")}
        </Button>
      </div>
      <p className="small muted">{t("proof.limits")}</p>
      {isOpen && <KeySheet onClose={() => setOpen(false)} />}
    </section>
  );
}
