import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { ApiError } from "../../ui/api.ts";
import { Button } from "../../ui/button.tsx";
import { EmailField, PasswordField } from "../../ui/field.tsx";
import { ActionForm, useAction } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { isComplete, type LoginAnswer } from "../login-answer.ts";
import { LoginStep } from "../login-step.tsx";
import { canAutofillPasskeys, canUsePasskeys, endPasskeyOffer, usePasskeyOnce } from "../passkeys.ts";
import { ProviderButtons } from "../provider-buttons.tsx";
import { type Session, useSession } from "../session.ts";
import { useText } from "../text.ts";

/** A challenge is good for five minutes. */
const OFFER_MS = 240_000;

export function LoginPage() {
  const t = useText();
  const session = useSession();
  const navigate = useNavigate();
  const { next = "/" } = useSearch({ from: "/out/login" });
  const [step, setStep] = useState<LoginAnswer>();

  const go = async (answer: LoginAnswer) => {
    if (!isComplete(answer)) return setStep(answer);
    await session.load();
    await navigate({ to: next });
  };
  usePasskeyOffer(session, go);
  const passkey = useAction(async () => {
    await endPasskeyOffer();
    await go(await loginWithPasskey(session, false));
  });

  if (step !== undefined) return <LoginStep step={step} onAnswer={go} onCancel={() => setStep(undefined)} />;
  return (
    <>
      <PageTitle>{t("login.title")}</PageTitle>
      <div className="stack">
        {passkey.problem !== undefined && <Notice isBad>{passkey.problem.message}</Notice>}
        <ActionForm
          submit={t("login.submit")}
          wide
          action={async ({ email, password }) =>
            go(await session.client.step("/auth/login", { email, password }))
          }
        >
          <EmailField label={t("login.email")} autoComplete="username webauthn" autoFocus />
          <PasswordField name="password" label={t("login.password")} autoComplete="current-password" />
        </ActionForm>
        {canUsePasskeys() && (
          <>
            <div className="or">{t("login.or")}</div>
            <Button kind="quiet" size="wide" isPending={passkey.isRunning} onClick={() => void passkey.run()}>
              {t("login.passkey")}
            </Button>
          </>
        )}
        <ProviderButtons separate={!canUsePasskeys()} />
      </div>
      <div className="links">
        <p>
          <Link to="/forgot-password">{t("login.forgot")}</Link>
        </p>
        <p>
          {t("login.new")} <Link to="/register">{t("login.register")}</Link>
        </p>
      </div>
    </>
  );
}

async function loginWithPasskey(session: Session, byAutofill: boolean): Promise<LoginAnswer> {
  const { challengeToken, options } = await session.client.step<{ challengeToken: string; options: never }>(
    "/auth/passkeys/login/options",
    {},
  );
  const response = await usePasskeyOnce(options, byAutofill);
  return session.client.step("/auth/passkeys/login", { challengeToken, response });
}

/** Passkeys among what the browser offers in the field of the address, as long as the page is there. */
function usePasskeyOffer(session: Session, onAnswer: (answer: LoginAnswer) => Promise<void>): void {
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const offer = async () => {
      if (isOver || !(await canAutofillPasskeys())) return;
      timer = setTimeout(() => void offer(), OFFER_MS);
      try {
        const answer = await loginWithPasskey(session, true);
        if (!isOver) await onAnswer(answer);
      } catch (error) {
        // The form stands beside it. A refused passkey may be another one next time.
        if (error instanceof ApiError && error.code === "passkey_invalid") void offer();
      }
    };
    void offer();
    return () => {
      isOver = true;
      clearTimeout(timer);
      void endPasskeyOffer();
    };
  }, []);
}
