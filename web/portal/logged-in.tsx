import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { RoomIcon } from "../session/room-icon.tsx";
import { useAccount, useMay, useSession } from "../session/session.ts";
import { SignedIn } from "../session/signed-in.tsx";
import { Rooms } from "../ui/frame.tsx";
import { wayOf } from "./next-page.ts";
import { useText } from "./text.ts";

export function LoggedIn() {
  const t = useText();
  const account = useAccount();
  const session = useSession();
  const navigate = useNavigate();
  const { pathname: next, search } = useLocation();
  useEffect(() => {
    if (account !== undefined) return;
    // Whoever has logged out does not come back here.
    void navigate({ to: "/login", search: session.ending === "expired" ? wayOf({ ...search, next }) : {} });
  }, [account, navigate]);
  if (account === undefined) return null;
  return <SignedIn home="/account" layout="account" logOut={t("account.logOut")} rooms={<AccountRooms />} />;
}

/** Each opens a page of the console. */
const CONSOLE = ["audit:read:user", "users:read", "clients:read", "system:read"];

function AccountRooms() {
  const t = useText();
  const may = useMay();
  const pathname = useLocation({ select: (location) => location.pathname });
  const rooms = [
    ["/", "account", t("account.profile")],
    ["/security", "security", t("account.security")],
    ["/approvals", "approvals", t("account.approvals")],
    ["/sessions", "sessions", t("account.sessions")],
    ["/providers", "providers", t("account.providers")],
  ] as const;
  return (
    <Rooms present={pathname}>
      {rooms.map(([to, icon, name]) => (
        <li key={to}>
          <Link to={to} activeOptions={{ exact: to === "/" }}>
            <RoomIcon of={icon} />
            {name}
          </Link>
        </li>
      ))}
      {CONSOLE.some(may) && (
        <li>
          <a href="/console">
            <RoomIcon of="console" />
            {t("account.console")}
          </a>
        </li>
      )}
    </Rooms>
  );
}
