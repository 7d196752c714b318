import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { useSession } from "../../session/session.ts";
import { explain } from "../../ui/explain.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Loading, Notice } from "../../ui/notice.tsx";
import { useLoginSteps } from "../login-answer.tsx";
import { takeReturn, takeWay } from "../provider-login.ts";
import { useText } from "../text.ts";

/** Where the browser comes back to from an identity provider. */
export function ReturnedPage() {
  const t = useText();
  const session = useSession();
  const navigate = useNavigate();
  const [arrived] = useState(takeReturn);
  const [way] = useState(takeWay);
  const { go, step } = useLoginSteps(way, () => void navigate({ to: "/login", search: way }));
  const [failure, setFailure] = useState<{ error: unknown }>();
  useEffect(() => {
    const { code, codeVerifier, linked, error = "oauth_failed" } = arrived;
    const arrive = async () => {
      if (linked !== undefined) return navigate({ to: "/providers" });
      if (code === undefined || codeVerifier === undefined) throw new GatehouseError(400, { code: error });
      return go(await session.step("POST /auth/oauth/exchange", { body: { code, codeVerifier } }));
    };
    arrive().catch((failed: unknown) => setFailure({ error: failed }));
  }, []);

  if (step !== undefined) return step;
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
