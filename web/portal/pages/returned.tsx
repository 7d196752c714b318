import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { ApiError } from "../../ui/api.ts";
import { type Explained, explain } from "../../ui/explain.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Loading, Notice } from "../../ui/notice.tsx";
import { isComplete, type LoginAnswer } from "../login-answer.ts";
import { takeReturn } from "../provider-login.ts";
import { useSession } from "../session.ts";
import { useText } from "../text.ts";

const LoginStep = lazy(() => import("../login-step.tsx").then(({ LoginStep: step }) => ({ default: step })));

/** Where the browser comes back to from an identity provider. */
export function ReturnedPage() {
  const t = useText();
  const session = useSession();
  const navigate = useNavigate();
  const [arrived] = useState(takeReturn);
  const [step, setStep] = useState<LoginAnswer>();
  const [problem, setProblem] = useState<Explained>();

  const go = async (answer: LoginAnswer) => {
    if (!isComplete(answer)) return setStep(answer);
    await session.load();
    await navigate({ to: "/" });
  };
  useEffect(() => {
    const { code, codeVerifier, linked, error = "oauth_failed" } = arrived;
    const arrive = async () => {
      if (linked !== undefined) return navigate({ to: "/providers" });
      if (code === undefined || codeVerifier === undefined) throw new ApiError(400, error, {});
      return go(await session.client.step("/auth/oauth/exchange", { code, codeVerifier }));
    };
    arrive().catch((failed: unknown) => setProblem(explain(failed)));
  }, []);

  if (step !== undefined)
    return (
      <Suspense fallback={<Loading />}>
        <LoginStep step={step} onAnswer={go} onCancel={() => void navigate({ to: "/login" })} />
      </Suspense>
    );
  if (problem === undefined) return <Loading />;
  return (
    <>
      <PageTitle>{t("returned.failed")}</PageTitle>
      <div className="stack">
        <Notice isBad>{problem.message}</Notice>
        <Link to="/login" className="button wide">
          {t("login.back")}
        </Link>
      </div>
    </>
  );
}
