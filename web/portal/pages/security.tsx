import { useState } from "react";
import { useShownOnce } from "../../session/ended.tsx";
import { Sheet } from "../../ui/dialog.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { RecoveryCodes } from "../recovery-codes.tsx";
import { useText } from "../text.ts";
import { Activity } from "./security/activity.tsx";
import { Passkeys } from "./security/passkeys.tsx";
import { Password } from "./security/password.tsx";
import { SecondFactor } from "./security/second-factor.tsx";

export function SecurityPage() {
  const t = useText();
  const [codes, setCodes] = useState<readonly string[]>([]);
  const isOpen = codes.length > 0;
  const hasEnded = useShownOnce(isOpen);
  const leave = () => setCodes([]);
  return (
    <>
      <PageTitle lead={t("security.lead")}>{t("account.security")}</PageTitle>
      <Password />
      <Passkeys onCodes={setCodes} />
      <SecondFactor onCodes={setCodes} />
      <Activity />
      <Sheet title={t("recovery.title")} isOpen={isOpen} mustAnswer isOpaque={hasEnded} onClose={leave}>
        {(close) => (
          <>
            <p className="muted">{t("recovery.lead")}</p>
            <RecoveryCodes codes={codes} onDone={close} />
          </>
        )}
      </Sheet>
    </>
  );
}
