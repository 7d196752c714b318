import { QueryClientProvider } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { Attendance } from "../session/attendance.tsx";
import { newQueries } from "../session/queries.ts";
import { ProofWanted, StoppedReadings } from "../session/reading.tsx";
import { useAccount, useMay, useSession, useUser } from "../session/session.ts";
import { StepUp } from "../session/step-up.tsx";
import { Button } from "../ui/button.tsx";
import { type Action, useAction } from "../ui/form.tsx";
import { Frame, PageTitle, Rooms } from "../ui/frame.tsx";
import { Notice } from "../ui/notice.tsx";
import { AlarmBanner } from "./audit/alarm-banner.tsx";
import { type TextKey, useText } from "./text.ts";

/** What stands in the navigation, by the permission that opens it. Order: the first one is where a person arrives. */
export const ROOMS: readonly { path: string; name: TextKey; permission: string }[] = [
  { path: "/overview", name: "overview.title", permission: "audit:read" },
  { path: "/users", name: "users.title", permission: "users:read" },
  { path: "/clients", name: "clients.title", permission: "clients:read" },
  { path: "/audit", name: "audit.title", permission: "audit:read:user" },
  { path: "/system", name: "system.title", permission: "system:read" },
];

/** The frame of every page. Without a session it is empty: the guard leads to the login. */
export function Shell() {
  return useAccount() === undefined ? null : <Frames />;
}

/** Of one person: what they have loaded and typed is gone with it. */
function Frames() {
  const [queries] = useState(newQueries);
  const { logout } = useSession();
  const logOut = useAction(() => logout("session"));
  return (
    <QueryClientProvider client={queries}>
      <StoppedReadings>
        <Frame home="/console" beside={<Person logOut={logOut} />}>
          <div className="console">
            <OpenRooms />
            <main id="content">
              {logOut.problem !== undefined && <Notice isBad>{logOut.problem.message}</Notice>}
              <AlarmBanner />
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

function OpenRooms(): ReactNode {
  const t = useText();
  const pathname = useLocation({ select: (location) => location.pathname });
  const may = useMay();
  const open = ROOMS.filter(({ permission }) => may(permission));
  if (open.length === 0) return null;
  return (
    <Rooms present={pathname}>
      {open.map(({ path, name }) => (
        <li key={path}>
          <Link to={path}>{t(name)}</Link>
        </li>
      ))}
    </Rooms>
  );
}

function Person({ logOut: { run, isRunning } }: { logOut: Action<[]> }) {
  const t = useText();
  const { email } = useUser();
  return (
    <>
      <a className="person" href="/account" title={t("console.account")}>
        {email}
      </a>
      <Button kind="quiet" size="slim" isPending={isRunning} onClick={() => void run()}>
        {t("console.logOut")}
      </Button>
    </>
  );
}

export function Nothing() {
  const t = useText();
  const { role } = useUser();
  return (
    <>
      <PageTitle lead={t("console.nothingLead", { role })}>{t("console.nothing")}</PageTitle>
      <a className="button" href="/account">
        {t("console.account")}
      </a>
    </>
  );
}

export function Missing() {
  const t = useText();
  return (
    <>
      <PageTitle lead={t("states.missingText")}>{t("states.missing")}</PageTitle>
      <Link to="/" className="button">
        {t("console.title")}
      </Link>
    </>
  );
}
