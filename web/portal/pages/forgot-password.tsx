import { Link, useLocation, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { callApi } from "../../ui/api.ts";
import { EmailField } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { useText } from "../text.ts";

export function ForgotPasswordPage() {
  const t = useText();
  const way = useSearch({ from: "/out/forgot-password" });
  const [email, setEmail] = useState<string>();
  // Of a login that failed.
  const { email: tried } = useLocation().state;
  const back = (
    <p className="links">
      <Link to="/login" search={way}>
        {t("login.back")}
      </Link>
    </p>
  );
  if (email !== undefined) {
    return (
      <>
        <PageTitle lead={t("forgot.doneLead", { email })}>{t("forgot.done")}</PageTitle>
        {back}
      </>
    );
  }
  return (
    <>
      <PageTitle lead={t("forgot.lead")}>{t("forgot.title")}</PageTitle>
      <ActionForm
        submit={t("forgot.submit")}
        wide
        action={async (entered) => {
          await callApi(fetch, "POST /auth/forgot-password", { body: { email: entered.email ?? "" } });
          setEmail(entered.email);
        }}
      >
        <EmailField label={t("login.email")} defaultValue={tried} autoFocus />
      </ActionForm>
      {back}
    </>
  );
}
