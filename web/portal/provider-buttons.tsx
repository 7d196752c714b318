import { useEffect, useState } from "react";
import type { IdentityProvider } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../session/session.ts";
import { callApi } from "../ui/api.ts";
import { Button } from "../ui/button.tsx";
import { useAction } from "../ui/form.tsx";
import { Notice } from "../ui/notice.tsx";
import type { Way } from "./next-page.ts";
import { beginProviderLogin } from "./provider-login.ts";
import { useText } from "./text.ts";

const MAX_PAUSE_MS = 30_000;

/** None until they are known: a page works without them. It asks again while it is shown, because some people have no password. */
export function useProviders(): readonly IdentityProvider[] {
  const [providers, setProviders] = useState<readonly IdentityProvider[]>([]);
  useEffect(() => {
    let next: ReturnType<typeof setTimeout>;
    const gone = new AbortController();
    const ask = (pauseMs: number) =>
      listProviders().then(
        (found) => gone.signal.aborted || setProviders(found),
        () => {
          if (gone.signal.aborted) return;
          next = setTimeout(ask, pauseMs, Math.min(2 * pauseMs, MAX_PAUSE_MS));
        },
      );
    void ask(1_000);
    return () => {
      gone.abort();
      clearTimeout(next);
    };
  }, []);
  return providers;
}

export function ProviderButtons({
  providers,
  separate,
  way,
}: {
  providers: readonly IdentityProvider[];
  separate: boolean;
  way: Way;
}) {
  const t = useText();
  // Whoever has just logged out may be another person, or needs a fresh login: then the provider has to ask.
  const isAfresh = useSession().ending === "loggedOut";
  const { run, problem } = useAction((provider: string) => beginProviderLogin(provider, { way, isAfresh }));
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

/** @throws {GatehouseError} */
export async function listProviders(): Promise<IdentityProvider[]> {
  const { providers } = await callApi(fetch, "GET /auth/providers");
  return providers;
}
