import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { callApi } from "../../ui/api.ts";
import { EmailField, Field, PasswordField } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { useText } from "../text.ts";

export function RegisterPage() {
  const t = useText();
  const way = useSearch({ from: "/out/register" });
  const [email, setEmail] = useState<string>();
  if (email !== undefined) {
    return (
      <>
        <PageTitle lead={t("register.doneLead", { email })}>{t("register.done")}</PageTitle>
        <div className="stack">
          <p className="muted">{t("register.doneHint")}</p>
          <Link to="/login" search={way} className="button wide">
            {t("login.submit")}
          </Link>
        </div>
      </>
    );
  }
  return (
    <>
      <PageTitle>{t("register.title")}</PageTitle>
      <ActionForm
        submit={t("register.submit")}
        wide
        action={async ({ newPassword: password = "", email: entered = "", firstName = "", lastName }) => {
          await callApi(fetch, "POST /auth/register", {
            body: { email: entered, firstName, lastName, password },
          });
          setEmail(entered);
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
