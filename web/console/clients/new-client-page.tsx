import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useSession } from "../../session/session.ts";
import { Field } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { useText } from "../text.ts";
import { chosenPermissions, OwnerField, PermissionFields, useOwnerId } from "./fields.tsx";

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
          <Field
            name="name"
            label={t("clients.name")}
            hint={t("newClient.nameHint")}
            required
            maxLength={100}
            autoComplete="off"
          />
          <OwnerField />
          <PermissionFields />
          <Field
            name="reason"
            label={t("act.reason")}
            hint={t("act.reasonHint")}
            required
            maxLength={120}
            autoComplete="off"
          />
        </ActionForm>
      </div>
    </>
  );
}
