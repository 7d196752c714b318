import { useCopy } from "../ui/save.ts";
import { useText } from "./text.ts";

/** A text for machines, and a button that copies it. @param name what it is, for screen readers. */
export function Copyable({ name, text }: { name: string; text: string }) {
  const t = useText();
  const [outcome, copy] = useCopy(text);
  return (
    <span className="copyable">
      <code>{text}</code>
      <button type="button" className="plain small" aria-label={t("copy.what", { name })} onClick={copy}>
        {t(outcome ?? "form.copy")}
      </button>
      <span role="status" className="hidden">
        {outcome && t(outcome)}
      </span>
    </span>
  );
}
