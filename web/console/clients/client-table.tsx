import { type UseInfiniteQueryResult, useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Client } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../../session/session.ts";
import { Found } from "../../ui/states.tsx";
import { More, pages } from "../more.tsx";
import { Table } from "../table.tsx";
import { useText } from "../text.ts";
import { When } from "../when.tsx";

interface Page {
  clients: Client[];
  nextCursor: string | null;
}

/** @param wanted.owner a user's id; `none`: of nobody; empty: all. */
export function useClients({ owner }: { owner: string }) {
  const { call } = useSession();
  return useInfiniteQuery({
    queryKey: ["clients", "list", owner],
    ...pages((cursor) => call("GET /admin/clients", { query: { ...(owner && { owner }), ...cursor } })),
  });
}

export function ClientTable({
  query,
  name,
  empty,
}: {
  query: UseInfiniteQueryResult<{ pages: Page[] }>;
  name: string;
  empty: string;
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
              {
                head: t("clients.changed"),
                kind: "number",
                cell: ({ changedAt }) => <When time={changedAt} />,
              },
            ]}
          />
          <More query={query} />
        </>
      )}
    </Found>
  );
}

const SHOWN = 2;

function Some({ names }: { names: readonly string[] }) {
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
