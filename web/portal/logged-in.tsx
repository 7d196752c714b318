import { QueryClientProvider } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Attendance } from "../session/attendance.tsx";
import { newQueries } from "../session/queries.ts";
import { ProofWanted, StoppedReadings } from "../session/reading.tsx";
import { useAccount, useSession } from "../session/session.ts";
import { StepUp } from "../session/step-up.tsx";
import { Button } from "../ui/button.tsx";
import { useAction } from "../ui/form.tsx";
import { Frame, Rooms } from "../ui/frame.tsx";
import { Notice } from "../ui/notice.tsx";
import { useText } from "./text.ts";

export function LoggedIn() {
  const account = useAccount();
  const navigate = useNavigate();
  useEffect(() => {
    if (account === undefined) void navigate({ to: "/login" });
  }, [account, navigate]);
  return account === undefined ? null : <Account />;
}

/** The frame of the pages of one logged-in person. What they have loaded and typed is gone with it. */
function Account() {
  const [queries] = useState(newQueries);
  const t = useText();
  const { logout } = useSession();
  const pathname = useLocation({ select: (location) => location.pathname });
  const { run, isRunning, problem } = useAction(() => logout("session"));
  const logOut = (
    <Button kind="quiet" size="slim" isPending={isRunning} onClick={() => void run()}>
      {t("account.logOut")}
    </Button>
  );
  const rooms = [
    ["/", t("account.profile")],
    ["/security", t("account.security")],
    ["/approvals", t("account.approvals")],
    ["/sessions", t("account.sessions")],
    ["/providers", t("account.providers")],
  ] as const;
  return (
    <QueryClientProvider client={queries}>
      <StoppedReadings>
        <Frame home="/account" beside={logOut}>
          <div className="account">
            <Rooms present={pathname}>
              {rooms.map(([to, name]) => (
                <li key={to}>
                  <Link to={to} activeOptions={{ exact: to === "/" }}>
                    {name}
                  </Link>
                </li>
              ))}
            </Rooms>
            <main id="content">
              {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
              <ProofWanted />
              <Outlet />
            </main>
          </div>
          <Attendance />
          <StepUp />
        </Frame>
      </StoppedReadings>
    </QueryClientProvider>
  );
}
