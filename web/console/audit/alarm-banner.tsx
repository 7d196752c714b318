import { Fragment, useEffect, useState } from "react";
import { useMay } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Cancel, Sheet } from "../../ui/dialog.tsx";
import { useAction } from "../../ui/form.tsx";
import { save } from "../../ui/save.ts";
import { useLanguage } from "../../ui/text.ts";
import { type TextKey, useText } from "../text.ts";
import { momentText } from "../when.tsx";
import type { Alarm, Finding } from "./check-log.ts";
import { KeySheet } from "./key-sheet.tsx";
import { readMemory } from "./log-memory.ts";
import { useAlarm, useCheckAgain, useEndAlarm } from "./use-checked.ts";
import "./alarm.css";

const TEXT: Record<Finding, TextKey> = {
  form: "alarm.form",
  leaf_hash: "alarm.leafHash",
  entry: "alarm.entry",
  root: "alarm.root",
  signature: "alarm.signature",
  noted: "alarm.noted",
  key: "alarm.key",
  announced: "alarm.announced",
  shorter: "alarm.shorter",
  rewritten: "alarm.rewritten",
  withheld: "alarm.withheld",
  other: "alarm.other",
};

/** Its words are not broken: a line that ends with `--` says something else. */
const COMMAND = "gatehouse audit verify --live --key log.vkey --checkpoints checkpoints.jsonl";

/** Above everything, once an answer has contradicted the log, until a person ends it. */
export function AlarmBanner() {
  const t = useText();
  const language = useLanguage();
  const may = useMay();
  const alarm = useAlarm();
  const checkAgain = useCheckAgain();
  const [isStill, setStill] = useState(false);
  const { run, isRunning, problem } = useAction(async () => {
    setStill(false);
    setStill(!(await checkAgain()));
  });
  const [open, setOpen] = useState<"key" | "end">();
  // Whoever else uses this browser can neither check it nor end it.
  const isOn = alarm !== undefined && may("audit:read");
  useEffect(() => {
    if (isOn) document.documentElement.dataset.alarm = "";
    return () => {
      delete document.documentElement.dataset.alarm;
    };
  }, [isOn]);
  if (!isOn) return null;
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
          <code>
            {COMMAND.split(" ").map((word) => (
              <Fragment key={word}>
                <span>{word}</span>{" "}
              </Fragment>
            ))}
          </code>
        </li>
        <li>{t("alarm.runbook", { file: "docs/audit-verify.md" })}</li>
      </ol>
      <div className="buttons">
        <Button size="slim" onClick={() => keepEvidence(alarm)}>
          {t("alarm.save")}
        </Button>
        <Button kind="quiet" size="slim" isPending={isRunning} onClick={() => void run()}>
          {t("alarm.again")}
        </Button>
        <Button kind="quiet" size="slim" onClick={() => setOpen("key")}>
          {t("proof.aboutKey")}
        </Button>
        <Button kind="quiet" size="slim" onClick={() => setOpen("end")}>
          {t("alarm.end")}
        </Button>
      </div>
      {isStill && <p>{t("alarm.still")}</p>}
      {problem !== undefined && <p>{t("alarm.unchecked", { why: problem.message })}</p>}
      {open === "key" && <KeySheet onClose={() => setOpen(undefined)} />}
      {open === "end" && <EndSheet alarm={alarm} onClose={() => setOpen(undefined)} />}
    </section>
  );
}

/** Nothing ends an alarm by itself. */
function EndSheet({ alarm, onClose }: { alarm: Alarm; onClose: () => void }) {
  const t = useText();
  const end = useEndAlarm();
  return (
    <Sheet title={t("alarm.end")} onClose={onClose}>
      {() => (
        <>
          <p>{t("alarm.endLead")}</p>
          <div className="buttons">
            <Button onClick={() => keepEvidence(alarm)}>{t("alarm.save")}</Button>
            <Button kind="danger" onClick={end}>
              {t("alarm.endNow")}
            </Button>
            <Cancel onClick={onClose} />
          </div>
        </>
      )}
    </Sheet>
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
