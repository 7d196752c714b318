import { Link, useSearch } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { flushSync } from "react-dom";
import { callApi } from "../../ui/api.ts";
import { addressOf } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { explain } from "../../ui/explain.ts";
import { EmailField, Field, PasswordField } from "../../ui/field.tsx";
import { ActionForm, useAction } from "../../ui/form.tsx";
import { localeOf, ownTimeZone } from "../../ui/format.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";

export function RegisterPage() {
  const t = useText();
  const [sentTo, setSentTo] = useState<string>();
  const form = useRef<HTMLDivElement>(null);
  const onSent = (email: string) => {
    // What is hidden has no focus, so that the new heading gets it.
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    setSentTo(email);
  };
  const onWrong = () => {
    flushSync(() => setSentTo(undefined));
    form.current?.querySelector<HTMLInputElement>("[name=email]")?.focus();
  };
  return (
    <>
      {sentTo === undefined ? (
        <PageTitle>{t("register.title")}</PageTitle>
      ) : (
        <Sent email={sentTo} onWrong={onWrong} />
      )}
      {/* What was typed waits for whoever finds the address wrong. */}
      <div ref={form} hidden={sentTo !== undefined}>
        <RegistrationForm onSent={onSent} />
      </div>
    </>
  );
}

function Sent({ email, onWrong }: { email: string; onWrong: () => void }) {
  const t = useText();
  const way = useSearch({ from: "/out/register" });
  const mailbox = addressOf("mailbox");
  const [isAgain, setAgain] = useState(false);
  const resend = useAction(async () => {
    setAgain(false);
    await callApi(fetch, "POST /auth/resend-verification", { body: { email } });
    setAgain(true);
  });
  return (
    <>
      <PageTitle lead={t("register.doneLead", { email })}>{t("register.done")}</PageTitle>
      <div className="stack">
        <p className="muted">{t("register.doneHint")}</p>
        {mailbox !== undefined && (
          <a href={mailbox} target="_blank" rel="noreferrer">
            {t("register.mailbox")}
          </a>
        )}
        {isAgain && <Notice>{t("email.sent", { email })}</Notice>}
        {resend.problem !== undefined && <Notice isBad>{resend.problem.message}</Notice>}
        <Link to="/login" search={way} className="button wide">
          {t("login.submit")}
        </Link>
        <div className="buttons">
          <Button kind="quiet" isPending={resend.isRunning} onClick={() => void resend.run()}>
            {t("email.resend")}
          </Button>
          <Button kind="quiet" onClick={onWrong}>
            {t("register.wrong")}
          </Button>
        </div>
      </div>
    </>
  );
}

function RegistrationForm({ onSent }: { onSent: (email: string) => void }) {
  const t = useText();
  const language = useLanguage();
  const way = useSearch({ from: "/out/register" });
  return (
    <>
      <ActionForm
        submit={t("register.submit")}
        wide
        action={async ({ newPassword: password = "", email: entered = "", firstName = "", lastName }) => {
          const body = { email: entered, firstName, lastName, password, language: localeOf(language) };
          const register = (zone: { timeZone?: string }) =>
            callApi(fetch, "POST /auth/register", { body: { ...body, ...zone } });
          await register({ timeZone: ownTimeZone() }).catch((error: unknown) => {
            // The browser may know a zone that the service does not.
            if ("timeZone" in explain(error).fields) return register({});
            throw error;
          });
          onSent(entered);
        }}
      >
        <div className="pair">
          <Field
            name="firstName"
            label={t("profile.firstName")}
            autoComplete="given-name"
            required
            maxLength={100}
            autoFocus
          />
          <Field
            name="lastName"
            label={t("profile.lastName")}
            hint={t("profile.oneName")}
            autoComplete="family-name"
            maxLength={100}
          />
        </div>
        <EmailField label={t("login.email")} />
        <PasswordField
          name="newPassword"
          label={t("login.password")}
          hint={t("password.hint")}
          autoComplete="new-password"
        />
      </ActionForm>
      <div className="links">
        <p>
          {t("register.known")}{" "}
          <Link to="/login" search={way}>
            {t("login.submit")}
          </Link>
        </p>
      </div>
    </>
  );
}
