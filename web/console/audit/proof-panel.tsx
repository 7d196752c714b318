import { useState } from "react";
import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
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
  // By two clocks, of which the answer names one.
  const isLateFor = (entry?: AuditEntry) =>
    [openedAtMs, Date.parse(entry?.receivedAt ?? "")].some((ms) => checkedAtMs - ms > USUAL_MS);
  switch (checked.kind) {
    case "alarm":
      return <Notice isBad>{t("proof.not")}</Notice>;
    case "unsupported":
      return <Notice isBad>{t("proof.unsupported")}</Notice>;
    case "waiting": {
      const isLate = isLateFor(checked.entry);
      return (
        <Notice isBad={isLate}>
          <strong>{t("proof.notYet")}</strong>
          <span>{t(isLate ? "proof.late" : "proof.soon")}</span>
        </Notice>
      );
    }
    case "proven":
      return log.kind !== "proven" ? null : (
        <>
          {checked.found.head === undefined && (
            <NotNoted log={checked.found.entry.log} isLate={isLateFor(checked.found.entry)} />
          )}
          <Proven entry={checked.found} log={log.found} />
        </>
      );
  }
}

/** Its own log has signed the entry. That everybody is shown the same log is not said yet. */
function NotNoted({ log, isLate }: { log: number; isLate: boolean }) {
  const t = useText();
  return (
    <Notice isBad={isLate}>
      <strong>{t("proof.notNoted", { log })}</strong>
      <span>{t(isLate ? "proof.notNotedLate" : "proof.notNotedSoon")}</span>
    </Notice>
  );
}

/** What is proven of an entry, and no more. @param entry of a log that was checked. */
export function useProvenText(): (entry: ProvenEntry, log: LogState) => string {
  const t = useText();
  return ({ entry, head }, { comparedAt }) => {
    if (head === undefined) return t("proof.provenInLog", { log: entry.log });
    return t(comparedAt === undefined ? "proof.provenByFirst" : "proof.proven");
  };
}

function Proven({ entry, log }: { entry: ProvenEntry; log: LogState }) {
  const t = useText();
  const provenText = useProvenText();
  const language = useLanguage();
  const [isOpen, setOpen] = useState(false);
  const number = new Intl.NumberFormat(language);
  const isCompared = log.comparedAt !== undefined;
  const { checkpoint, head } = entry;
  const isWhole = isCompared && head !== undefined;
  const [name = "", keyId = ""] = log.key.split("+");
  const ofLog = { log: entry.entry.log, count: number.format(checkpoint.size) };
  return (
    <section className={isWhole ? "proof" : "proof open"} aria-label={t("proof.title")}>
      <div role="status">
        <h2>
          <span className={isWhole ? "mark" : "mark open"} aria-hidden="true" />
          {provenText(entry, log)}
        </h2>
      </div>
      <ul>
        <li>{t("proof.hash", { hash: entry.leafHash })}</li>
        <li>{ofLog.log === 0 ? t("proof.inclusion", ofLog) : t("proof.inclusionInLog", ofLog)}</li>
        {ofLog.log !== 0 && (
          <li>
            {t("proof.signedInLog", {
              when: momentText(checkpoint.time, language),
              name: visible(checkpoint.origin),
            })}
          </li>
        )}
        {ofLog.log !== 0 && head !== undefined && (
          <li>{t("proof.noted", { count: number.format(head.size) })}</li>
        )}
        {head !== undefined && (
          <li>
            {t("proof.signed", {
              when: momentText(head.time, language),
              name: visible(name),
              id: visible(keyId),
            })}
          </li>
        )}
        {head !== undefined && log.since !== undefined && (
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
