import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { useSession } from "../../session/session.ts";
import { explain } from "../../ui/explain.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Loading, Notice } from "../../ui/notice.tsx";
import { isComplete, type LoginAnswer } from "../login-answer.ts";
import { wayOn } from "../next-page.ts";
import { takeReturn, takeWay } from "../provider-login.ts";
import { useText } from "../text.ts";

const LoginStep = lazy(() => import("../login-step.tsx").then(({ LoginStep: step }) => ({ default: step })));

/** Where the browser comes back to from an identity provider. */
export function ReturnedPage() {
  const t = useText();
  const session = useSession();
  const navigate = useNavigate();
  const [arrived] = useState(takeReturn);
  const [way] = useState(takeWay);
  const [step, setStep] = useState<LoginAnswer>();
  const [failure, setFailure] = useState<{ error: unknown }>();

  const go = async (answer: LoginAnswer) => {
    if (!isComplete(answer)) return setStep(answer);
    await session.load();
    await navigate(await wayOn(way));
  };
  useEffect(() => {
    const { code, codeVerifier, linked, error = "oauth_failed" } = arrived;
    const arrive = async () => {
      if (linked !== undefined) return navigate({ to: "/providers" });
      if (code === undefined || codeVerifier === undefined) throw new GatehouseError(400, { code: error });
      return go(await session.step("POST /auth/oauth/exchange", { body: { code, codeVerifier } }));
    };
    arrive().catch((failed: unknown) => setFailure({ error: failed }));
  }, []);

  if (step !== undefined)
    return (
      <Suspense fallback={<Loading />}>
        <LoginStep step={step} onAnswer={go} onCancel={() => void navigate({ to: "/login", search: way })} />
      </Suspense>
    );
  if (failure === undefined) return <Loading />;
  return (
    <>
      <PageTitle>{t("returned.failed")}</PageTitle>
      <div className="stack">
        <Notice isBad>{explain(failure.error).message}</Notice>
        <Link to="/login" search={way} className="button wide">
          {t("login.back")}
        </Link>
      </div>
    </>
  );
}
