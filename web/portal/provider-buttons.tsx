import { useEffect, useState } from "react";
import type { IdentityProvider } from "../../examples/typescript-client/generated/gatehouse.ts";
import { callApi } from "../ui/api.ts";
import { Button } from "../ui/button.tsx";
import { useAction } from "../ui/form.tsx";
import { Notice } from "../ui/notice.tsx";
import { beginProviderLogin } from "./provider-login.ts";
import { useText } from "./text.ts";

/** Nothing if there are none, or if they cannot be asked for: the form above works without them. */
export function ProviderButtons({ separate }: { separate: boolean }) {
  const t = useText();
  const [providers, setProviders] = useState<readonly IdentityProvider[]>([]);
  const { run, problem } = useAction(beginProviderLogin);
  useEffect(() => {
    let isGone = false;
    listProviders().then(
      (found) => isGone || setProviders(found),
      () => undefined,
    );
    return () => {
      isGone = true;
    };
  }, []);
  if (providers.length === 0) return null;
  return (
    <>
      {separate && <div className="or">{t("login.or")}</div>}
      {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
      {providers.map(({ name, displayName }) => (
        <Button key={name} kind="quiet" size="wide" onClick={() => void run(name)}>
          {t("login.provider", { provider: displayName })}
        </Button>
      ))}
    </>
  );
}

/** @throws {ApiError} */
export async function listProviders(): Promise<IdentityProvider[]> {
  const { providers } = await callApi<{ providers: IdentityProvider[] }>(
    (...call) => fetch(...call),
    "GET",
    "/auth/providers",
  );
  return providers;
}
