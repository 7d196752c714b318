import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Passkey } from "#clients/api/generated/gatehouse.ts";
import { canUsePasskeys, makePasskey, thisDevice } from "../../session/passkeys.ts";
import { useAccount, useSession, useUser } from "../../session/session.ts";
import { callApi } from "../../ui/api.ts";
import { Button } from "../../ui/button.tsx";
import { Sheet } from "../../ui/dialog.tsx";
import { CodeField, Field, PasswordField } from "../../ui/field.tsx";
import { ActionForm, useAction } from "../../ui/form.tsx";
import { sinceText } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found, Rows } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { RecoveryCodes } from "../recovery-codes.tsx";
import { useText } from "../text.ts";
import { TotpSecret, type TotpSetUp } from "../totp-secret.tsx";

export function SecurityPage() {
  const t = useText();
  const [codes, setCodes] = useState<readonly string[]>([]);
  return (
    <>
      <PageTitle lead={t("security.lead")}>{t("account.security")}</PageTitle>
      <Password />
      <Passkeys onCodes={setCodes} />
      <SecondFactor onCodes={setCodes} />
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

function Password() {
  const hasPassword = useAccount()?.hasPassword ?? true;
  return hasPassword ? <ChangePassword /> : <FirstPassword />;
}

/** By a link in a mail: whoever holds the session only must not set one. */
function FirstPassword() {
  const t = useText();
  const { email } = useUser();
  const [isSent, setSent] = useState(false);
  return (
    <Section title={t("password.title")} lead={t("password.none")}>
      {isSent && <Notice>{t("email.sent", { email })}</Notice>}
      <ActionForm
        submit={t("password.set")}
        action={async () => {
          await callApi(fetch, "POST /auth/forgot-password", { body: { email } });
          setSent(true);
        }}
      />
    </Section>
  );
}

function ChangePassword() {
  const t = useText();
  const { call } = useSession();
  const { email } = useUser();
  const [isSaved, setSaved] = useState(false);
  return (
    <Section title={t("password.title")} lead={t("password.lead")}>
      {isSaved && <Notice>{t("password.saved")}</Notice>}
      <ActionForm
        submit={t("password.submit")}
        action={async ({ currentPassword = "", newPassword = "" }, form) => {
          setSaved(false);
          await call("POST /auth/change-password", { body: { currentPassword, newPassword } });
          form.reset();
          setSaved(true);
        }}
      >
        {/* Tells password managers whose password it is. */}
        <input
          className="hidden"
          type="text"
          name="username"
          autoComplete="username"
          value={email}
          readOnly
          tabIndex={-1}
          aria-hidden="true"
        />
        <PasswordField name="currentPassword" label={t("password.current")} autoComplete="current-password" />
        <PasswordField
          name="newPassword"
          label={t("newPassword.field")}
          hint={t("password.hint")}
          autoComplete="new-password"
        />
      </ActionForm>
    </Section>
  );
}

interface GivesCodes {
  onCodes: (codes: readonly string[]) => void;
}

function Passkeys({ onCodes }: GivesCodes) {
  const t = useText();
  const { call, loadAgain } = useSession();
  const language = useLanguage();
  const queries = useQueryClient();
  const [renamed, setRenamed] = useState<Passkey>();
  const [removed, setRemoved] = useState<Passkey>();
  const query = useQuery({
    queryKey: ["passkeys"],
    queryFn: () => call("GET /auth/passkeys"),
  });
  const changed = () => queries.invalidateQueries({ queryKey: ["passkeys"] });
  const add = useAction(async () => {
    const options = await call("POST /auth/passkeys/options", { body: {} });
    const response = await makePasskey(options);
    const { recoveryCodes = [] } = await call("POST /auth/passkeys", {
      body: {
        response,
        name: thisDevice(),
      },
    });
    // They are shown once, whatever becomes of the rest.
    onCodes(recoveryCodes);
    await Promise.all([changed(), loadAgain()]);
  });
  return (
    <Section title={t("passkeys.title")} lead={t("passkeys.lead")}>
      {add.problem !== undefined && <Notice isBad>{add.problem.message}</Notice>}
      <Found query={query}>
        {({ passkeys }) => (
          <Rows
            rows={passkeys}
            empty={t("passkeys.none")}
            row={(passkey) => (
              <>
                <div className="what">
                  <strong>
                    <bdi>{passkey.name}</bdi>
                  </strong>
                  <span className="muted small">
                    {passkey.lastUsedAt === null
                      ? t("passkeys.unused", { when: sinceText(passkey.createdAt, language) })
                      : t("passkeys.used", { when: sinceText(passkey.lastUsedAt, language) })}
                  </span>
                </div>
                <div className="buttons">
                  <Button
                    kind="quiet"
                    size="slim"
                    aria-label={t("passkeys.renameIt", { name: passkey.name })}
                    onClick={() => setRenamed(passkey)}
                  >
                    {t("passkeys.rename")}
                  </Button>
                  <Button
                    kind="quiet"
                    size="slim"
                    aria-label={t("passkeys.removeIt", { name: passkey.name })}
                    onClick={() => setRemoved(passkey)}
                  >
                    {t("form.remove")}
                  </Button>
                </div>
              </>
            )}
          />
        )}
      </Found>
      {canUsePasskeys() ? (
        <div className="buttons">
          <Button kind="quiet" isPending={add.isRunning} onClick={() => void add.run()}>
            {t("passkeys.add")}
          </Button>
        </div>
      ) : (
        <p className="muted small">{t("passkeys.unsupported")}</p>
      )}
      <Sheet
        title={t("passkeys.rename")}
        isOpen={renamed !== undefined}
        onClose={() => setRenamed(undefined)}
      >
        {(close) => (
          <ActionForm
            submit={t("form.save")}
            beside={<Cancel onClick={close} />}
            action={async ({ name = "" }) => {
              await call("PATCH /auth/passkeys/{id}", { path: { id: renamed?.id ?? "" }, body: { name } });
              await changed();
              close();
            }}
          >
            <Field
              name="name"
              label={t("passkeys.name")}
              defaultValue={renamed?.name ?? ""}
              required
              maxLength={64}
              autoFocus
            />
          </ActionForm>
        )}
      </Sheet>
      <Sheet
        title={t("passkeys.removeQuestion")}
        isOpen={removed !== undefined}
        onClose={() => setRemoved(undefined)}
      >
        {(close) => (
          <>
            <p className="muted">{t("passkeys.removeLead", { name: removed?.name ?? "" })}</p>
            <ActionForm
              submit={t("form.remove")}
              kind="danger"
              beside={<Cancel onClick={close} />}
              action={async () => {
                await call("DELETE /auth/passkeys/{id}", { path: { id: removed?.id ?? "" } });
                close();
                await Promise.all([changed(), loadAgain()]);
              }}
            />
          </>
        )}
      </Sheet>
    </Section>
  );
}

function SecondFactor({ onCodes }: GivesCodes) {
  const t = useText();
  const { call, loadAgain } = useSession();
  const account = useAccount();
  const [open, setOpen] = useState<"setUp" | "disable" | "renew">();
  const hasApp = account?.totpEnabled ?? false;
  const close = () => setOpen(undefined);
  return (
    <>
      <Section title={t("totp.title")} lead={t("totp.lead")}>
        <div className="buttons">
          <Button kind="quiet" onClick={() => setOpen(hasApp ? "disable" : "setUp")}>
            {t(hasApp ? "totp.disable" : "totp.setUp")}
          </Button>
        </div>
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
              <PasswordField
                name="password"
                label={t("stepUp.password")}
                autoComplete="current-password"
                autoFocus
              />
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

function Cancel({ onClick }: { onClick: () => void }) {
  const t = useText();
  return (
    <Button kind="quiet" onClick={onClick}>
      {t("form.cancel")}
    </Button>
  );
}
