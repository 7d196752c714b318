import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Answer } from "#clients/api/endpoint.ts";
import { useReading } from "../../session/reading.tsx";
import { useMay } from "../../session/session.ts";
import { fullName } from "../../ui/format.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { DoneArea } from "../act.tsx";
import { ClientTable, useClients } from "../clients/clients-page.tsx";
import { Copyable } from "../copyable.tsx";
import { Fact, Panel } from "../panel.tsx";
import { useText } from "../text.ts";
import { When } from "../when.tsx";
import { Acts, useMayActOn } from "./acts.tsx";
import { Activity, Failures, Mails, Sessions, SignIn } from "./user-panels.tsx";
import { UserTags, useRoles } from "./users-page.tsx";

type Described = Answer<"GET /admin/users/{id}">;

export function UserPage() {
  const t = useText();
  const { id } = useParams({ from: "/users/$id" });
  const [isGone, setGone] = useState(false);
  const query = useReading({
    queryKey: ["users", id],
    read: (call) => call("GET /admin/users/{id}", { path: { id } }),
    enabled: !isGone,
  });
  if (isGone)
    return (
      <>
        <PageTitle>{t("users.title")}</PageTitle>
        <div className="stack">
          <Notice>{t("deleteUser.done")}</Notice>
          <Back />
        </div>
      </>
    );
  return (
    <DoneArea key={id}>
      <Back />
      <Found query={query}>{(described) => <Person {...described} onDeleted={() => setGone(true)} />}</Found>
    </DoneArea>
  );
}

function Back() {
  const t = useText();
  return (
    <p className="back">
      <Link to="/users">{t("users.back")}</Link>
    </p>
  );
}

function Person({ user, details, onDeleted }: Described & { onDeleted: () => void }) {
  const may = useMay();
  const roles = useRoles();
  const mayAct = useMayActOn(user, roles.data?.roles ?? []);
  const name = fullName(user);
  return (
    <>
      <PageTitle
        lead={
          <span className="tagged">
            {user.email} <UserTags user={user} isLocked={details.locked} />
          </span>
        }
      >
        {name === "" ? user.email : name}
      </PageTitle>
      <div className="beside">
        <div className="panels">
          {may("audit:read:user") && <Failures userId={user.id} />}
          <SignIn user={user} details={details} mayAct={mayAct} />
          {may("sessions:read") && <Sessions user={user} mayAct={mayAct} />}
          {may("clients:read") && <Clients userId={user.id} />}
          <Mails mails={details.mails} />
          {may("audit:read:user") && <Activity userId={user.id} />}
        </div>
        <aside className="panels">
          <Facts user={user} details={details} />
          <ActsPanel>
            <Found query={roles}>
              {(found) => <Acts user={user} details={details} roles={found.roles} onDeleted={onDeleted} />}
            </Found>
          </ActsPanel>
        </aside>
      </div>
    </>
  );
}

function ActsPanel({ children }: { children: ReactNode }) {
  const t = useText();
  return <Panel title={t("user.acts")}>{children}</Panel>;
}

function Facts({ user, details }: Described) {
  const t = useText();
  return (
    <Panel title={t("user.account")}>
      <dl className="details">
        <Fact name={t("users.role")}>{user.role}</Fact>
        <Fact name={t("users.since")}>
          <When time={user.createdAt} />
        </Fact>
        <Fact name={t("user.lastLogin")}>
          {user.lastLoginAt === null ? t("list.never") : <When time={user.lastLoginAt} />}
        </Fact>
        {details.locked && (
          <Fact name={t("user.lockedUntil")}>
            {details.lockedUntil === null ? t("user.lockedOpen") : <When time={details.lockedUntil} />}
          </Fact>
        )}
        <Fact name={t("user.id")}>
          <Copyable name={t("user.id")} text={user.id} />
        </Fact>
      </dl>
    </Panel>
  );
}

function Clients({ userId }: { userId: string }) {
  const t = useText();
  const mayAdd = useMay()("clients:write");
  const query = useClients({ owner: userId });
  return (
    <Panel title={t("user.clients")}>
      <ClientTable
        query={query}
        name={t("user.clients")}
        empty={
          <>
            {t("user.noClients")} {mayAdd && <Link to="/clients/new">{t("newClient.title")}</Link>}
          </>
        }
      />
    </Panel>
  );
}
