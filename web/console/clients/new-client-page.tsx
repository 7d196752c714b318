import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useSession } from "../../session/session.ts";
import { ActionForm } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { ReasonField } from "../act.tsx";
import { useText } from "../text.ts";
import { chosenPermissions, NameField, OwnerField, PermissionFields, useOwnerId } from "./fields.tsx";

export function NewClientPage() {
  const t = useText();
  const { call } = useSession();
  const ownerIdOf = useOwnerId();
  const queries = useQueryClient();
  const navigate = useNavigate();
  return (
    <>
      <p className="back">
        <Link to="/clients">{t("clients.back")}</Link>
      </p>
      <PageTitle lead={t("newClient.lead")}>{t("newClient.title")}</PageTitle>
      <div className="narrow">
        <ActionForm
          submit={t("newClient.submit")}
          action={async ({ name = "", owner = "", reason }, form) => {
            const permissions = chosenPermissions(form);
            const ownerId = await ownerIdOf(owner);
            const body = { name: name.trim(), ownerId, permissions, reason };
            const { client } = await call("POST /admin/clients", { body });
            await queries.invalidateQueries({ queryKey: ["clients"] });
            await navigate({ to: "/clients/$id", params: { id: client.id } });
          }}
        >
          <NameField hint={t("newClient.nameHint")} />
          <OwnerField />
          <PermissionFields />
          <ReasonField />
        </ActionForm>
      </div>
    </>
  );
}
