import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useSession, useUser } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Cancel, Sheet } from "../../ui/dialog.tsx";
import { EmailField, Field, OwnPasswordField, SelectField } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { dateText } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { languages, useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { Unproven, useProven } from "../unproven.tsx";

export function ProfilePage() {
  const t = useText();
  const user = useUser();
  const language = useLanguage();
  return (
    <>
      <PageTitle lead={t("profile.since", { date: dateText(user.createdAt, language) })}>
        {t("account.profile")}
      </PageTitle>
      <Names />
      <Address />
      <Mails />
      <Delete />
    </>
  );
}

function Names() {
  const t = useText();
  const { call, loadAgain } = useSession();
  const { firstName, lastName } = useUser();
  const [isSaved, setSaved] = useState(false);
  return (
    <Section title={t("profile.names")}>
      {isSaved && <Notice>{t("form.saved")}</Notice>}
      <ActionForm
        submit={t("form.save")}
        action={async (names) => {
          setSaved(false);
          await call("PATCH /auth/me", { body: names });
          await loadAgain();
          setSaved(true);
        }}
      >
        <div className="pair">
          <Field
            name="firstName"
            label={t("profile.firstName")}
            defaultValue={firstName}
            autoComplete="given-name"
            required
            maxLength={100}
          />
          <Field
            name="lastName"
            label={t("profile.lastName")}
            hint={t("profile.oneName")}
            defaultValue={lastName}
            autoComplete="family-name"
            maxLength={100}
          />
        </div>
      </ActionForm>
    </Section>
  );
}

function Address() {
  const t = useText();
  const { call } = useSession();
  const { email, emailVerified } = useUser();
  const [isOpen, setOpen] = useState(false);
  const [sentTo, setSentTo] = useState<string>();
  const isProven = useProven();
  return (
    <Section title={t("email.title")} lead={t("email.lead")}>
      <p className="tagged">
        <strong>{email}</strong>
        <span className={isProven ? "tag" : "tag bad"}>
          {t(isProven ? "email.verified" : emailVerified ? "email.unproven" : "email.unverified")}
        </span>
      </p>
      {!isProven && <Unproven />}
      {sentTo !== undefined && <Notice>{t("email.sent", { email: sentTo })}</Notice>}
      <div className="buttons">
        <Button kind="quiet" onClick={() => setOpen(true)}>
          {t("email.change")}
        </Button>
      </div>
      <Sheet title={t("email.change")} isOpen={isOpen} onClose={() => setOpen(false)}>
        {(close) => (
          <>
            <p className="muted">{t("email.changeLead")}</p>
            <ActionForm
              submit={t("email.send")}
              beside={<Cancel onClick={close} />}
              action={async ({ newEmail = "", password = "" }) => {
                await call("POST /auth/change-email", { body: { newEmail, password } });
                setSentTo(newEmail);
                close();
              }}
            >
              <EmailField name="newEmail" label={t("email.new")} autoComplete="email" autoFocus />
              <OwnPasswordField />
            </ActionForm>
          </>
        )}
      </Sheet>
    </Section>
  );
}

/** In a language that the account has from elsewhere, too. */
function Mails() {
  const t = useText();
  const shown = useLanguage();
  const { call, loadAgain } = useSession();
  const { language } = useUser();
  const [isSaved, setSaved] = useState(false);
  const known = new Map(languages());
  if (language !== "" && !known.has(language)) {
    known.set(language, new Intl.DisplayNames(language, { type: "language" }).of(language) ?? language);
  }
  return (
    <Section title={t("mailLanguage.title")} lead={t("mailLanguage.lead")}>
      {isSaved && <Notice>{t("form.saved")}</Notice>}
      <ActionForm
        submit={t("form.save")}
        action={async ({ language: chosen = "" }) => {
          setSaved(false);
          const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
          await call("PATCH /auth/me", { body: { language: chosen, timeZone } });
          await loadAgain();
          setSaved(true);
        }}
      >
        <SelectField
          name="language"
          label={t("mailLanguage.field")}
          options={[...known]}
          defaultValue={language === "" ? shown : language}
        />
      </ActionForm>
    </Section>
  );
}

function Delete() {
  const t = useText();
  const session = useSession();
  const navigate = useNavigate();
  const [isOpen, setOpen] = useState(false);
  return (
    <Section title={t("delete.title")} lead={t("delete.lead")}>
      <div className="buttons">
        <Button kind="danger" onClick={() => setOpen(true)}>
          {t("delete.begin")}
        </Button>
      </div>
      <Sheet title={t("delete.question")} isOpen={isOpen} onClose={() => setOpen(false)}>
        {(close) => (
          <>
            <p className="muted">{t("delete.warning")}</p>
            <ActionForm
              submit={t("delete.submit")}
              kind="danger"
              beside={<Cancel onClick={close} />}
              action={async ({ password = "" }) => {
                await session.call("DELETE /auth/me", { body: { password } });
                session.forget("deleted");
                await navigate({ to: "/login" });
              }}
            >
              <OwnPasswordField autoFocus />
            </ActionForm>
          </>
        )}
      </Sheet>
    </Section>
  );
}
