import { useState } from "react";
import { useSession } from "../../../session/session.ts";
import { CodeField, PasswordField } from "../../../ui/field.tsx";
import { ActionForm } from "../../../ui/form.tsx";
import { useText } from "../../text.ts";
import { TotpSecret, type TotpSetUp } from "../../totp-secret.tsx";
import { Cancel } from "./cancel.tsx";
import type { GivesCodes } from "./gives-codes.ts";

export function SetUpTotp({ onCancel, onCodes }: GivesCodes & { onCancel: () => void }) {
  const t = useText();
  const { call, loadAgain } = useSession();
  const [setUp, setSetUp] = useState<TotpSetUp>();
  if (setUp === undefined) {
    return (
      <ActionForm
        submit={t("totp.next")}
        beside={<Cancel onClick={onCancel} />}
        action={async ({ password = "" }) =>
          setSetUp(await call("POST /auth/mfa/setup", { body: { password } }))
        }
      >
        <PasswordField
          name="password"
          label={t("stepUp.password")}
          autoComplete="current-password"
          autoFocus
        />
      </ActionForm>
    );
  }
  return (
    <>
      <TotpSecret setUp={setUp} />
      <ActionForm
        submit={t("totp.confirm")}
        beside={<Cancel onClick={onCancel} />}
        action={async ({ code = "" }) => {
          const { recoveryCodes } = await call("POST /auth/mfa/enable", {
            body: {
              code: code.trim(),
            },
          });
          onCodes(recoveryCodes);
          await loadAgain();
        }}
      >
        <CodeField label={t("totp.code")} hint={t("totp.codeHint")} autoFocus />
      </ActionForm>
    </>
  );
}
