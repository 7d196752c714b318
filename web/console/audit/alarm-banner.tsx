import { useEffect, useState } from "react";
import { Button } from "../../ui/button.tsx";
import { save } from "../../ui/save.ts";
import { useLanguage } from "../../ui/text.ts";
import { type TextKey, useText } from "../text.ts";
import { momentText } from "../when.tsx";
import type { Alarm, Finding } from "./check-log.ts";
import { KeySheet } from "./key-sheet.tsx";
import { readMemory } from "./log-memory.ts";
import { useAlarm, useCheckAgain } from "./use-checked.ts";
import "./alarm.css";

const TEXT: Record<Finding, TextKey> = {
  form: "alarm.form",
  leaf_hash: "alarm.leafHash",
  entry: "alarm.entry",
  root: "alarm.root",
  signature: "alarm.signature",
  key: "alarm.key",
  shorter: "alarm.shorter",
  rewritten: "alarm.rewritten",
  withheld: "alarm.withheld",
  other: "alarm.other",
};

/** Above everything, once an answer has contradicted the log. */
export function AlarmBanner() {
  const t = useText();
  const language = useLanguage();
  const alarm = useAlarm();
  const checkAgain = useCheckAgain();
  const [isKeyOpen, setKeyOpen] = useState(false);
  const isOn = alarm !== undefined;
  useEffect(() => {
    if (isOn) document.documentElement.dataset.alarm = "";
    return () => {
      delete document.documentElement.dataset.alarm;
    };
  }, [isOn]);
  if (alarm === undefined) return null;
  return (
    <section className="alarm" role="alert">
      <h2>{t("alarm.title")}</h2>
      <p className="finding">{t(TEXT[alarm.finding])}</p>
      <p>{t("alarm.at", { when: momentText(alarm.at, language) })}</p>
      <ol>
        <li>{t("alarm.doNotAct")}</li>
        <li>{t("alarm.keep")}</li>
        <li>
          {t("alarm.verify")}
          <code>gatehouse audit verify --live --key log.vkey --checkpoints checkpoints.jsonl</code>
        </li>
        <li>{t("alarm.runbook", { file: "docs/audit-verify.md" })}</li>
      </ol>
      <div className="buttons">
        <Button size="slim" onClick={() => keepEvidence(alarm)}>
          {t("alarm.save")}
        </Button>
        <Button kind="quiet" size="slim" onClick={checkAgain}>
          {t("alarm.again")}
        </Button>
        <Button kind="quiet" size="slim" onClick={() => setKeyOpen(true)}>
          {t("proof.aboutKey")}
        </Button>
      </div>
      {isKeyOpen && <KeySheet onClose={() => setKeyOpen(false)} />}
    </section>
  );
}

function keepEvidence(alarm: Alarm): void {
  const { pathname } = location;
  const text = JSON.stringify({ ...alarm, page: pathname, remembered: readMemory() }, undefined, 2);
  save(
    new Blob([text], { type: "application/json" }),
    `gatehouse-alarm-${alarm.at.replaceAll(":", "")}.json`,
  );
}
