import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { ClientWithCredentials, ManagedUser } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { useMay } from "../../session/session.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { DoneArea } from "../act.tsx";
import { Copyable } from "../copyable.tsx";
import { Fact, Panel } from "../panel.tsx";
import { PermissionList } from "../permissions.tsx";
import { useText } from "../text.ts";
import { When } from "../when.tsx";
import { ClientActs } from "./client-acts.tsx";
import { ClientTags } from "./clients-page.tsx";
import { Credentials } from "./credentials.tsx";

export function ClientPage() {
  const t = useText();
  const { id } = useParams({ from: "/clients/$id" });
  const [isGone, setGone] = useState(false);
  const query = useReading({
    queryKey: ["clients", id],
    read: (call) => call("GET /admin/clients/{id}", { path: { id } }),
    enabled: !isGone,
  });
  const back = (
    <p className="back">
      <Link to="/clients">{t("clients.back")}</Link>
    </p>
  );
  if (isGone)
    return (
      <>
        <PageTitle>{t("clients.title")}</PageTitle>
        <div className="stack">
          <Notice>{t("deleteClient.done")}</Notice>
          {back}
        </div>
      </>
    );
  return (
    <DoneArea key={id}>
      {back}
      <Found query={query}>{({ client }) => <Shown client={client} onDeleted={() => setGone(true)} />}</Found>
    </DoneArea>
  );
}

function Shown({ client, onDeleted }: { client: ClientWithCredentials; onDeleted: () => void }) {
  const t = useText();
  const may = useMay();
  const mayWrite = may("clients:write");
  const owner = useOwner(client.ownerId, may("users:read"));
  return (
    <>
      <PageTitle lead={<ClientTags client={client} />}>{client.name}</PageTitle>
      <div className="beside">
        <div className="panels">
          <Credentials client={client} mayWrite={mayWrite} />
          <Panel title={t("clients.permissions")}>
            <PermissionList names={client.permissions} />
          </Panel>
        </div>
        <aside className="panels">
          <Panel title={t("clients.facts")}>
            <dl className="details">
              <Fact name={t("clients.id")}>
                <Copyable name={t("clients.id")} text={client.id} />
              </Fact>
              <Fact name={t("clients.owner")}>
                {client.ownerId === null ? (
                  t("clients.noOwner")
                ) : (
                  <Link to="/users/$id" params={{ id: client.ownerId }}>
                    {owner?.email ?? client.ownerId}
                  </Link>
                )}
              </Fact>
              <Fact name={t("clients.created")}>
                <When time={client.createdAt} />
              </Fact>
              <Fact name={t("clients.changed")}>
                <When time={client.changedAt} />
              </Fact>
            </dl>
          </Panel>
          {mayWrite && (
            <Panel title={t("user.acts")}>
              <ClientActs client={client} ownerEmail={owner?.email} onDeleted={onDeleted} />
            </Panel>
          )}
        </aside>
      </div>
    </>
  );
}

/** The user who answers for a client or webhook, if the signed-in person may read users. */
export function useOwner(ownerId: string | null, mayRead: boolean): ManagedUser | undefined {
  const { data } = useReading({
    queryKey: ["users", ownerId],
    read: (call) => call("GET /admin/users/{id}", { path: { id: ownerId ?? "" } }),
    enabled: ownerId !== null && mayRead,
  });
  return data?.user;
}
