import { useShownOnce } from "../session/ended.tsx";
import { Button } from "../ui/button.tsx";
import { Sheet } from "../ui/dialog.tsx";
import { Copyable } from "./copyable.tsx";
import { Fact } from "./panel.tsx";
import { useText } from "./text.ts";

/** What is shown once. Neither Escape, nor a click beside it, nor the end of the session loses it. @param facts name and text. */
export function OnceSheet({
  isOpen,
  lead,
  facts,
  onClose,
}: {
  isOpen: boolean;
  lead: string;
  facts: readonly (readonly [string, string])[];
  onClose: () => void;
}) {
  const t = useText();
  const hasEnded = useShownOnce(isOpen);
  return (
    <Sheet title={t("credentials.once")} isOpen={isOpen} mustAnswer isOpaque={hasEnded} onClose={onClose}>
      {(close) => (
        <>
          <p className="muted">{lead}</p>
          <dl className="details">
            {facts.map(([name, text]) => (
              <Fact key={name} name={name}>
                <Copyable name={name} text={text} />
              </Fact>
            ))}
          </dl>
          <Button size="wide" onClick={close}>
            {t("credentials.kept")}
          </Button>
        </>
      )}
    </Sheet>
  );
}
