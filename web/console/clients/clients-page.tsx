import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Client } from "#clients/api/generated/gatehouse.ts";
import { useMay, useSession } from "../../session/session.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Found } from "../../ui/states.tsx";
import { Copyable } from "../copyable.tsx";
import { More, pages, Table } from "../table.tsx";
import { useText } from "../text.ts";

export function ClientsPage() {
  const t = useText();
  const may = useMay();
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
        {may("clients:write") && (
          <Link className="button slim" to="/clients/new">
            {t("newClient.title")}
          </Link>
        )}
      </div>
      <div className="panel">
        <ClientTable
          query={query}
          name={t("clients.title")}
          empty={isOwnerless ? t("clients.noneOwnerless") : <FirstClient />}
        />
      </div>
    </>
  );
}

function FirstClient() {
  const t = useText();
  const exchange = `curl -u "$CLIENT_ID:$SECRET" -d grant_type=client_credentials ${location.origin}/oauth/token`;
  return (
    <div className="panels">
      <p>{t("clients.none")}</p>
      <p>{t("clients.first")}</p>
      <Copyable name={t("clients.exchange")} text={exchange} />
    </div>
  );
}

/** @param wanted.owner a user's id; `none`: of nobody; empty: all. Nothing is read without `clients:read`. */
export function useClients({ owner }: { owner: string }) {
  const { call } = useSession();
  const enabled = useMay()("clients:read");
  return useInfiniteQuery({
    enabled,
    queryKey: ["clients", "list", owner],
    ...pages((cursor) => call("GET /admin/clients", { query: { ...(owner && { owner }), ...cursor } })),
  });
}

export function ClientTable({
  query,
  name,
  empty,
}: {
  query: ReturnType<typeof useClients>;
  name: string;
  empty: ReactNode;
}) {
  const t = useText();
  return (
    <Found query={query}>
      {({ pages: found }) => (
        <>
          <Table
            name={name}
            rows={found.flatMap(({ clients }) => clients)}
            keyOf={({ id }) => id}
            empty={empty}
            columns={[
              {
                head: t("clients.name"),
                kind: "main",
                cell: ({ id, name: called }) => (
                  <Link to="/clients/$id" params={{ id }}>
                    {called}
                  </Link>
                ),
              },
              { head: t("clients.permissions"), cell: ({ permissions }) => <Some names={permissions} /> },
              { head: t("users.state"), cell: (client) => <ClientTags client={client} /> },
              { head: t("clients.changed"), time: ({ changedAt }) => changedAt },
            ]}
          />
          <More query={query} />
        </>
      )}
    </Found>
  );
}

const SHOWN = 2;

export function Some({ names }: { names: readonly string[] }) {
  const t = useText();
  const rest = names.length - SHOWN;
  return (
    <span title={names.join(", ")}>
      {names.slice(0, SHOWN).join(", ")}
      {rest > 0 && <span className="muted"> {t("clients.further", { count: rest })}</span>}
    </span>
  );
}

export function ClientTags({ client: { status, ownerId } }: { client: Client }) {
  const t = useText();
  return (
    <span className="tagged">
      {status === "active" ? (
        <span className="tag quiet">{t("users.active")}</span>
      ) : (
        <span className="tag bad">{t("users.disabled")}</span>
      )}
      {ownerId === null && <span className="tag warn">{t("clients.noOwner")}</span>}
    </span>
  );
}
