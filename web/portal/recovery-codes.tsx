import { Button } from "../ui/button.tsx";
import { save, useCopy } from "../ui/save.ts";
import { useText } from "./text.ts";

/** Of what makes new codes: they are shown once. */
export interface GivesCodes {
  onCodes: (codes: readonly string[]) => void;
}

/** Shown once. To copy, to print, or to download as a text file. */
export function RecoveryCodes({ codes, onDone }: { codes: readonly string[]; onDone: () => void }) {
  const t = useText();
  const text = `${codes.join("\n")}\n`;
  const [outcome, copy] = useCopy(text);
  const download = () => save(new Blob([text], { type: "text/plain" }), "gatehouse-recovery-codes.txt");
  return (
    <div className="stack">
      <ul className="codes" aria-label={t("recovery.title")}>
        {codes.map((code) => (
          <li key={code}>{code}</li>
        ))}
      </ul>
      <div className="buttons">
        <Button kind="quiet" onClick={copy}>
          {t(outcome ?? "form.copy")}
        </Button>
        <Button kind="quiet" onClick={download}>
          {t("form.download")}
        </Button>
        <Button kind="quiet" onClick={() => print()}>
          {t("recovery.print")}
        </Button>
      </div>
      <Button size="wide" onClick={onDone}>
        {t("recovery.done")}
      </Button>
    </div>
  );
}
