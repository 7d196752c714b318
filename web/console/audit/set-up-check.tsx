import { useState } from "react";
import { Button } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { useText } from "../text.ts";
import { KeySheet } from "./key-sheet.tsx";
import { isPutOff, putOff } from "./log-memory.ts";
import { useAlarm, useLog } from "./use-checked.ts";

/** One step, until this browser's key was compared, or the person has put it off. */
export function SetUpCheck() {
  const t = useText();
  const { data } = useLog();
  const alarm = useAlarm();
  const [isBegun, setBegun] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const [isOff, setOff] = useState(isPutOff);
  if (data?.kind !== "proven" || alarm !== undefined) return null;
  if (data.found.comparedAt !== undefined) return isBegun ? <Notice>{t("logKey.done")}</Notice> : null;
  if (isOff) return null;
  return (
    <div className="notice">
      <strong>{t("logKey.setUp")}</strong>
      <p>{t("logKey.why")}</p>
      <div className="buttons">
        <Button
          size="slim"
          onClick={() => {
            setBegun(true);
            setOpen(true);
          }}
        >
          {t("logKey.begin")}
        </Button>
        <Button
          kind="quiet"
          size="slim"
          onClick={() => {
            putOff();
            setOff(true);
          }}
        >
          {t("logKey.later")}
        </Button>
      </div>
      {isOpen && <KeySheet onClose={() => setOpen(false)} />}
    </div>
  );
}
