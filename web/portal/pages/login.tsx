import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import type { PasskeyRequestOptions } from "../../../examples/typescript-client/generated/gatehouse.ts";
import { ApiError } from "../../ui/api.ts";
import { Button } from "../../ui/button.tsx";
import { EmailField, PasswordField } from "../../ui/field.tsx";
import { ActionForm, useAction } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Loading, Notice } from "../../ui/notice.tsx";
import { isComplete, type LoginAnswer } from "../login-answer.ts";
import { askPasskey, canOfferPasskeys, canUsePasskeys } from "../passkeys.ts";
import { ProviderButtons } from "../provider-buttons.tsx";
import { type Session, useSession } from "../session.ts";
import { useText } from "../text.ts";

/** A challenge is good for five minutes. */
const OFFER_MS = 240_000;

/** Most logins end without one. */
const LoginStep = lazy(() => import("../login-step.tsx").then(({ LoginStep: step }) => ({ default: step })));

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
  const endOffer = usePasskeyOffer(session, go);
  const passkey = useAction(async () => {
    endOffer();
    await go(await loginWithPasskey(session));
  });

  if (step !== undefined)
    return (
      <Suspense fallback={<Loading />}>
        <LoginStep step={step} onAnswer={go} onCancel={() => setStep(undefined)} />
      </Suspense>
    );
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

async function loginWithPasskey(session: Session, offer?: AbortSignal): Promise<LoginAnswer> {
  const { challengeToken, options } = await session.client.step<{
    challengeToken: string;
    options: PasskeyRequestOptions;
  }>("/auth/passkeys/login/options", {});
  offer?.throwIfAborted();
  const response = await askPasskey(options, offer);
  return session.client.step("/auth/passkeys/login", { challengeToken, response });
}

/**
 * Passkeys among what the browser offers in the field of the address, as long as the page is there.
 * @returns a function that ends the offer: a browser asks for one passkey at a time.
 */
function usePasskeyOffer(session: Session, onAnswer: (answer: LoginAnswer) => Promise<void>): () => void {
  const ending = useRef<() => void>(() => undefined);
  useEffect(() => {
    let offer: AbortController | undefined;
    let isOver = false;
    const begin = async () => {
      if (isOver || !(await canOfferPasskeys())) return;
      offer = new AbortController();
      // Its challenge expires, so another one takes its place.
      const renewal = setTimeout(() => {
        offer?.abort();
        void begin();
      }, OFFER_MS);
      try {
        await onAnswer(await loginWithPasskey(session, offer.signal));
      } catch (error) {
        // The form stands beside it. Another passkey may be accepted.
        if (error instanceof ApiError && error.code === "passkey_invalid") void begin();
      } finally {
        clearTimeout(renewal);
      }
    };
    ending.current = () => {
      isOver = true;
      offer?.abort();
    };
    void begin();
    return () => ending.current();
  }, []);
  return () => ending.current();
}
