import { useState } from "react";
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
  return (
    <>
      <PageTitle lead={t("security.lead")}>{t("account.security")}</PageTitle>
      <Password />
      <Passkeys onCodes={setCodes} />
      <SecondFactor onCodes={setCodes} />
      <Activity />
      <Sheet title={t("recovery.title")} isOpen={codes.length > 0} mustAnswer onClose={() => setCodes([])}>
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
