import { Link, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { Body } from "#clients/api/endpoint.ts";
import { askPasskey, canUsePasskeys, offerPasskeys } from "../../session/passkeys.ts";
import { useSession } from "../../session/session.ts";
import { callApi } from "../../ui/api.ts";
import { Button } from "../../ui/button.tsx";
import { EmailField, PasswordField } from "../../ui/field.tsx";
import { type Action, ActionForm, useAction } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { useLoginSteps } from "../login-answer.tsx";
import { ProviderButtons, useProviders } from "../provider-buttons.tsx";
import { useText } from "../text.ts";

type PasskeyLogin = Body<"POST /auth/passkeys/login">;

export function LoginPage() {
  const t = useText();
  const session = useSession();
  const way = useSearch({ from: "/out/login" });
  const { go, step } = useLoginSteps(way);
  const [tried, setTried] = useState("");
  const providers = useProviders();

  const enter = async (body: PasskeyLogin) => go(await session.step("POST /auth/passkeys/login", { body }));
  // Nobody has asked for the offer, but whoever takes it is told what comes of it.
  const offered = useAction(enter);
  const endOffer = usePasskeyOffer(offered.run);
  const passkey = useAction(async () => {
    await endOffer();
    // It may have been taken just before.
    if (session.account === undefined) await enter(await passkeyLogin());
  });
  const problem = passkey.problem ?? offered.problem;

  if (step !== undefined) return step;
  return (
    <>
      <PageTitle>{t("login.title")}</PageTitle>
      <div className="stack">
        {session.ending !== undefined && <Notice>{t(`ended.${session.ending}`)}</Notice>}
        {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
        <ActionForm
          submit={t("login.submit")}
          wide
          action={async ({ email = "", password = "" }) => {
            setTried(email);
            await go(await session.step("POST /auth/login", { body: { email, password } }));
          }}
          help={(code) =>
            code === "invalid_credentials" && (
              <Link to="/forgot-password" search={way} state={{ email: tried }}>
                {t("login.helpForgot")}
              </Link>
            )
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
        <ProviderButtons providers={providers} separate={!canUsePasskeys()} way={way} />
      </div>
      <div className="links">
        <p>
          <Link to="/forgot-password" search={way}>
            {t("login.forgot")}
          </Link>
        </p>
        <p>
          {t("login.new")}{" "}
          <Link to="/register" search={way}>
            {t("login.register")}
          </Link>
        </p>
      </div>
    </>
  );
}

async function passkeyLogin(offer?: AbortSignal): Promise<PasskeyLogin> {
  const { challengeToken, options } = await callApi(fetch, "POST /auth/passkeys/login/options", { body: {} });
  offer?.throwIfAborted();
  return { challengeToken, response: await askPasskey(options, offer) };
}

/**
 * Passkeys among what the browser offers in the field of the address, as long as the page is there.
 * @returns a function that ends the offer.
 */
function usePasskeyOffer(enter: Action<[PasskeyLogin]>["run"]): () => Promise<void> {
  const ending = useRef(async () => {});
  useEffect(() => {
    const logIn = async (offer: AbortSignal) => {
      const failure = await enter(await passkeyLogin(offer));
      if (failure !== undefined) throw failure.error;
    };
    const end = offerPasskeys({ logIn });
    ending.current = end;
    return () => void end();
  }, []);
  return () => ending.current();
}
