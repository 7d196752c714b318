import { useState } from "react";
import { useAccount, useSession, useUser } from "../../../session/session.ts";
import { callApi } from "../../../ui/api.ts";
import { PasswordField } from "../../../ui/field.tsx";
import { ActionForm } from "../../../ui/form.tsx";
import { Section } from "../../../ui/frame.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { useText } from "../../text.ts";

export function Password() {
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
        {/* Shows password managers whose password it is. */}
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
