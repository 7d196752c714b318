import { Button } from "../../../ui/button.tsx";
import { useText } from "../../text.ts";

export function Cancel({ onClick }: { onClick: () => void }) {
  const t = useText();
  return (
    <Button kind="quiet" onClick={onClick}>
      {t("form.cancel")}
    </Button>
  );
}
