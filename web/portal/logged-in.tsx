import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Button } from "../ui/button.tsx";
import { useAction } from "../ui/form.tsx";
import { Frame } from "../ui/frame.tsx";
import { useAccount, useSession } from "./session.ts";
import { StepUp } from "./step-up.tsx";
import { loadTexts, useText } from "./text.ts";

const newQueries = () =>
  new QueryClient({
    defaultOptions: { queries: { retry: 1, staleTime: 10_000, networkMode: "always" } },
  });

/** The frame of the pages of a logged-in person. What they have loaded is gone with it. */
export function LoggedIn() {
  const [queries] = useState(newQueries);
  const t = useText();
  const session = useSession();
  const account = useAccount();
  const navigate = useNavigate();
  const { run, isRunning } = useAction(() => session.client.logout("session"));
  useEffect(() => {
    if (account === undefined) void navigate({ to: "/login" });
  }, [account, navigate]);
  if (account === undefined) return null;
  const logOut = (
    <Button kind="quiet" size="slim" isPending={isRunning} onClick={() => void run()}>
      {t("account.logOut")}
    </Button>
  );
  const rooms = [
    ["/", t("account.profile")],
    ["/security", t("account.security")],
    ["/sessions", t("account.sessions")],
    ["/providers", t("account.providers")],
  ] as const;
  return (
    <QueryClientProvider client={queries}>
      <Frame loadTexts={loadTexts} beside={logOut}>
        <div className="account">
          <nav aria-label={t("tools.navigation")}>
            <ul className="rooms">
              {rooms.map(([to, name]) => (
                <li key={to}>
                  <Link to={to} activeOptions={{ exact: true }}>
                    {name}
                  </Link>
                </li>
              ))}
            </ul>
          </nav>
          <main id="content">
            <Outlet />
          </main>
        </div>
        <StepUp />
      </Frame>
    </QueryClientProvider>
  );
}
