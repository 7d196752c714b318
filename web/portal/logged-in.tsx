import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
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
    ["/", t("account.profile")],
    ["/security", t("account.security")],
    ["/approvals", t("account.approvals")],
    ["/sessions", t("account.sessions")],
    ["/providers", t("account.providers")],
  ] as const;
  return (
    <Rooms present={pathname}>
      {rooms.map(([to, name]) => (
        <li key={to}>
          <Link to={to} activeOptions={{ exact: to === "/" }}>
            {name}
          </Link>
        </li>
      ))}
      {CONSOLE.some(may) && (
        <li>
          <a href="/console">{t("account.console")}</a>
        </li>
      )}
    </Rooms>
  );
}
