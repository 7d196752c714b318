import { useState } from "react";
import { stopOf } from "../../session/reading.tsx";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { momentText } from "../when.tsx";
import { KeySheet } from "./key-sheet.tsx";
import { useAlarm, useLog } from "./use-checked.ts";

/** What is proven of the log as a whole. */
export function LogLine() {
  const t = useText();
  const language = useLanguage();
  const { data, error, refetch } = useLog();
  const alarm = useAlarm();
  const [isOpen, setOpen] = useState(false);
  if (stopOf(error) === "forbidden")
    return (
      <p className="wrong small">
        {t("audit.forbiddenCheck")}{" "}
        <button type="button" className="plain" onClick={() => void refetch()}>
          {t("states.again")}
        </button>
      </p>
    );
  if (data === undefined || data.kind === "alarm" || alarm !== undefined) return null;
  const isCompared = data.kind === "proven" && data.found.comparedAt !== undefined;
  const key = (
    <button type="button" className="plain" onClick={() => setOpen(true)}>
      {t(isCompared ? "proof.aboutKey" : "logKey.setUp")}
    </button>
  );
  const sheet = isOpen && <KeySheet onClose={() => setOpen(false)} />;
  if (data.kind !== "proven")
    return (
      <p className="muted small">{t(data.kind === "waiting" ? "proof.noCheckpoint" : "proof.unsupported")}</p>
    );
  const { checkpoint, since, logs } = data.found;
  const count = new Intl.NumberFormat(language).format(checkpoint.size);
  return (
    <p className="log-line small">
      <span className={isCompared ? "mark" : "mark open"} aria-hidden="true" />
      <span>
        {t("proof.log", { count, when: momentText(checkpoint.time, language) })}{" "}
        {since !== undefined &&
          t("proof.since", {
            count: new Intl.NumberFormat(language).format(since.size),
            when: momentText(since.seenAt, language),
          })}{" "}
        {logs > 1 && t("proof.others", { count: logs - 1 })} {key}
      </span>
      {sheet}
    </p>
  );
}
