import { Link, useLocation } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { RoomIcon, type RoomName } from "../session/room-icon.tsx";
import { useAccount, useMay, useUser } from "../session/session.ts";
import { SignedIn } from "../session/signed-in.tsx";
import { PageTitle, Rooms } from "../ui/frame.tsx";
import { AlarmBanner } from "./audit/alarm-banner.tsx";
import { type TextKey, useText } from "./text.ts";

/** What stands in the navigation, by the permission that opens it. Order: the first one is where a person arrives. */
export const ROOMS: readonly {
  path: string;
  icon: RoomName;
  name: TextKey;
  permission: string;
}[] = [
  { path: "/overview", icon: "overview", name: "overview.title", permission: "audit:read" },
  { path: "/users", icon: "users", name: "users.title", permission: "users:read" },
  { path: "/clients", icon: "clients", name: "clients.title", permission: "clients:read" },
  { path: "/webhooks", icon: "webhooks", name: "webhooks.title", permission: "webhooks:read" },
  { path: "/roles", icon: "roles", name: "roles.title", permission: "users:read" },
  { path: "/audit", icon: "audit", name: "audit.title", permission: "audit:read:user" },
  { path: "/system", icon: "system", name: "system.title", permission: "system:read" },
];

/** The frame of every page. Without a session it is empty: the guard leads to the login. */
export function Shell() {
  return useAccount() === undefined ? null : <Frames />;
}

function Frames() {
  const t = useText();
  return (
    <SignedIn
      home="/console"
      layout="console"
      logOut={t("console.logOut")}
      rooms={<OpenRooms />}
      alarm={<AlarmBanner />}
    />
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
      {open.map(({ path, icon, name }) => (
        <li key={path}>
          <Link to={path}>
            <RoomIcon of={icon} />
            {t(name)}
          </Link>
        </li>
      ))}
      <li>
        <a href="/account">
          <RoomIcon of="account" />
          {t("console.account")}
        </a>
      </li>
    </Rooms>
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
