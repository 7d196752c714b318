import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Webhook } from "#clients/api/generated/gatehouse.ts";
import { useMay, useSession, useUser } from "../../session/session.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Found } from "../../ui/states.tsx";
import { Some } from "../clients/clients-page.tsx";
import { More, pages, Table } from "../table.tsx";
import { useText } from "../text.ts";

export function WebhooksPage() {
  const t = useText();
  const mayWrite = useMayWrite();
  const { call } = useSession();
  const query = useInfiniteQuery({
    queryKey: ["webhooks", "list"],
    ...pages((cursor) => call("GET /admin/webhooks", { query: cursor })),
  });
  return (
    <>
      <PageTitle lead={t("webhooks.lead")}>{t("webhooks.title")}</PageTitle>
      {mayWrite && (
        <div className="buttons">
          <Link className="button slim" to="/webhooks/new">
            {t("newWebhook.title")}
          </Link>
        </div>
      )}
      <div className="panel">
        <Found query={query}>
          {({ pages: found }) => (
            <>
              <WebhookTable webhooks={found.flatMap(({ webhooks }) => webhooks)} />
              <More query={query} />
            </>
          )}
        </Found>
      </div>
    </>
  );
}

function WebhookTable({ webhooks }: { webhooks: readonly Webhook[] }) {
  const t = useText();
  return (
    <Table
      name={t("webhooks.title")}
      rows={webhooks}
      keyOf={({ id }) => id}
      empty={t("webhooks.none")}
      columns={[
        {
          head: t("clients.name"),
          kind: "main",
          cell: ({ id, name, url, kind }) => (
            <>
              <Link to="/webhooks/$id" params={{ id }}>
                {name}
              </Link>
              <span className="muted small">
                {kind === "webhook" ? new URL(url).host : t("webhooks.stream")}
              </span>
            </>
          ),
        },
        { head: t("webhooks.types"), cell: ({ types }) => <Some names={types} /> },
        { head: t("users.state"), cell: (webhook) => <WebhookTags webhook={webhook} /> },
        { head: t("clients.owner"), cell: ({ ownerId }) => <Owner id={ownerId} /> },
        { head: t("webhooks.waiting"), kind: "number", cell: ({ waiting }) => waiting },
        { head: t("webhooks.failingSince"), time: ({ failingSince }) => failingSince },
      ]}
    />
  );
}

/** By id: to read the accounts of a whole list would be as many entries in the audit log. */
function Owner({ id }: { id: string | null }) {
  const t = useText();
  const user = useUser();
  if (id === null) return t("clients.noOwner");
  if (id === user.id) return t("webhooks.you");
  return (
    <Link className="cut" to="/users/$id" params={{ id }} title={id}>
      <code>{id}</code>
    </Link>
  );
}

export function WebhookTags({ webhook: { status, failingSince } }: { webhook: Webhook }) {
  const t = useText();
  return (
    <span className="tagged">
      {status === "active" ? (
        <span className="tag quiet">{t("users.active")}</span>
      ) : (
        <span className="tag bad">{t("webhooks.paused")}</span>
      )}
      {status === "active" && failingSince !== null && (
        <span className="tag warn">{t("webhooks.failing")}</span>
      )}
    </span>
  );
}

/** A webhook is sent what the audit log has: who makes or changes one may read that too. */
export function useMayWrite(): boolean {
  const may = useMay();
  return may("webhooks:write") && may("audit:read");
}
