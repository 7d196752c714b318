import { useState } from "react";
import { useAccount, useSession } from "../../../session/session.ts";
import { Button } from "../../../ui/button.tsx";
import { Cancel, Sheet } from "../../../ui/dialog.tsx";
import { CodeField, OwnPasswordField } from "../../../ui/field.tsx";
import { ActionForm } from "../../../ui/form.tsx";
import { dateText } from "../../../ui/format.ts";
import { Section } from "../../../ui/frame.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { useLanguage } from "../../../ui/text.ts";
import type { GivesCodes } from "../../recovery-codes.tsx";
import { useText } from "../../text.ts";
import { TotpSecret, type TotpSetUp } from "../../totp-secret.tsx";
import { Unproven, useProven } from "../../unproven.tsx";

export function SecondFactor({ onCodes }: GivesCodes) {
  const t = useText();
  const { call, loadAgain } = useSession();
  const account = useAccount();
  const [open, setOpen] = useState<"setUp" | "disable" | "renew">();
  const [isOn, setOn] = useState(false);
  const isProven = useProven();
  const hasApp = account?.totpEnabled ?? false;
  const since = account?.totpSince;
  const language = useLanguage();
  const close = () => setOpen(undefined);
  return (
    <>
      <Section
        title={t("totp.title")}
        state={
          <span className={hasApp ? "tag" : "muted small"}>
            {since === undefined
              ? t(hasApp ? "totp.on" : "totp.off")
              : t("totp.onSince", { date: dateText(since, language) })}
          </span>
        }
        lead={t("totp.lead")}
      >
        {isOn && hasApp && <Notice>{t("totp.done")}</Notice>}
        {hasApp || isProven ? (
          <div className="buttons">
            <Button kind="quiet" onClick={() => setOpen(hasApp ? "disable" : "setUp")}>
              {t(hasApp ? "totp.disable" : "totp.setUp")}
            </Button>
          </div>
        ) : (
          <Unproven />
        )}
      </Section>
      {account?.user.mfaEnabled === true && (
        <Section
          title={t("recovery.section")}
          lead={t("recovery.left", { count: account.recoveryCodesLeft ?? 0 })}
        >
          <div className="buttons">
            <Button kind="quiet" onClick={() => setOpen("renew")}>
              {t("recovery.renew")}
            </Button>
          </div>
        </Section>
      )}
      <Sheet title={t("totp.setUp")} isOpen={open === "setUp"} onClose={close}>
        {() => (
          <SetUpTotp
            onCancel={close}
            onCodes={(codes) => {
              close();
              setOn(true);
              onCodes(codes);
            }}
          />
        )}
      </Sheet>
      <Sheet title={t("recovery.renew")} isOpen={open === "renew"} onClose={close}>
        {() => (
          <>
            <p className="muted">{t("recovery.renewLead")}</p>
            <ActionForm
              submit={t("recovery.renew")}
              beside={<Cancel onClick={close} />}
              action={async ({ code = "" }) => {
                const { recoveryCodes } = await call("POST /auth/mfa/recovery-codes", {
                  body: {
                    code: code.trim(),
                  },
                });
                close();
                onCodes(recoveryCodes);
                await loadAgain();
              }}
            >
              <CodeField label={t("stepUp.code")} hint={t("stepUp.codeHint")} autoFocus />
            </ActionForm>
          </>
        )}
      </Sheet>
      <Sheet title={t("totp.disable")} isOpen={open === "disable"} onClose={close}>
        {() => (
          <>
            <p className="muted">{t("totp.disableLead")}</p>
            <ActionForm
              submit={t("totp.disable")}
              kind="danger"
              beside={<Cancel onClick={close} />}
              action={async ({ password = "", code = "" }) => {
                await call("POST /auth/mfa/disable", { body: { password, code: code.trim() } });
                close();
                await loadAgain();
              }}
            >
              <OwnPasswordField autoFocus />
              <CodeField label={t("stepUp.code")} hint={t("stepUp.codeHint")} />
            </ActionForm>
          </>
        )}
      </Sheet>
    </>
  );
}

function SetUpTotp({ onCancel, onCodes }: GivesCodes & { onCancel: () => void }) {
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
        <OwnPasswordField autoFocus />
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
