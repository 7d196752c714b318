import { Link, Outlet } from "@tanstack/react-router";
import { Frame, PageTitle } from "../ui/frame.tsx";
import { useText } from "./text.ts";

export function LoggedOut() {
  return (
    <Frame home="/account">
      <main id="content" className="alone">
        <Outlet />
      </main>
    </Frame>
  );
}

export function Missing() {
  const t = useText();
  return (
    <Frame home="/account">
      <main id="content" className="alone">
        <PageTitle lead={t("states.missingText")}>{t("states.missing")}</PageTitle>
        <Link to="/" className="button">
          {t("account.profile")}
        </Link>
      </main>
    </Frame>
  );
}
