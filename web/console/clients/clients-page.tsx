import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAccount } from "../../session/session.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { may } from "../may.ts";
import { useText } from "../text.ts";
import { ClientTable, useClients } from "./client-table.tsx";

export function ClientsPage() {
  const t = useText();
  const account = useAccount();
  const [isOwnerless, setOwnerless] = useState(false);
  const query = useClients({ owner: isOwnerless ? "none" : "" });
  return (
    <>
      <PageTitle lead={t("clients.lead")}>{t("clients.title")}</PageTitle>
      <div className="toolbar">
        <label className="check">
          <input
            type="checkbox"
            checked={isOwnerless}
            onChange={(event) => setOwnerless(event.target.checked)}
          />
          <span>{t("clients.ownerless")}</span>
        </label>
        {account !== undefined && may(account, "clients:write") && (
          <Link className="button slim" to="/clients/new">
            {t("newClient.title")}
          </Link>
        )}
      </div>
      <div className="panel">
        <ClientTable query={query} name={t("clients.title")} empty={t("clients.none")} />
      </div>
    </>
  );
}
